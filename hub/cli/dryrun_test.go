package cli_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// unchanged runs commands in dry runs of both kinds, and expects that cluster, deployment and tokens stay as they are.
func (f *env) unchanged(commands map[string]string) {
	f.T.Helper()
	cluster, deployment, tokens := f.cluster().ResourceVersion, f.workers().ResourceVersion, len(f.tokens())
	for command, says := range commands {
		for mode, mark := range map[string]string{"client": " (dry run)\n", "server": " (server dry run)\n"} {
			f.Expect(f.succeeds(command+" --dry-run="+mode)).To(ContainSubstring(says+mark), command)
		}
		f.Expect(f.cluster().ResourceVersion).To(Equal(cluster), command)
		f.Expect(f.workers().ResourceVersion).To(Equal(deployment), command)
		f.Expect(f.tokens()).To(HaveLen(tokens), command)
	}
}

// Edge case: `--dry-run` was missing. Also: TestADryRunOfUnfreezeAndResumeChangesNothing, TestAServerDryRunIsCheckedByTheServer, TestEveryCommandThatWritesTakesADryRun.
func TestADryRunChangesNothing(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME")
	f.deployment(2)
	f.revisions("v1.35.2", "v1.36.2")
	f.unchanged(map[string]string{
		"cluster accept NAME --wait":                             "cluster.hollowfleet.io/" + f.name + " accepted",
		"cluster deny NAME --end-watches":                        "1 join token deleted",
		"cluster remove NAME":                                    "cluster.hollowfleet.io/" + f.name + " removed",
		"freeze cluster NAME --reason x":                         "frozen by admin",
		"freeze machinedeployment workers -n NAME":               "frozen by admin",
		"rollout pause machinedeployment workers -n NAME":        "paused",
		"rollout undo machinedeployment workers -n NAME":         "rolled back to revision 1",
		"rollout undo machinedeployment workers -n NAME -o wide": "rolled back to revision 1",
	})
}

// Edge case: Unpaused rollouts were "resumed already".
func TestADryRunOfUnfreezeAndResumeChangesNothing(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME")
	f.deployment(2)
	f.Expect(f.succeeds("rollout resume machinedeployment workers -n NAME")).To(ContainSubstring("is not paused"))
	f.succeeds("freeze cluster NAME --wait=false")
	f.succeeds("rollout pause machinedeployment workers -n NAME")
	f.unchanged(map[string]string{
		"unfreeze cluster NAME":                            "unfrozen (it was frozen by admin)",
		"rollout resume machinedeployment workers -n NAME": "resumed",
	})
}

func TestAServerDryRunIsCheckedByTheServer(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME")
	f.stops(4, "already exists", "cluster join NAME --dry-run=server -o yaml")
	f.succeeds("cluster join NAME --dry-run=server --again -o yaml")
	f.fails(2, "want one of none, server, client", "cluster deny NAME --dry-run=maybe")
	f.Expect(f.tokens()).To(HaveLen(1))
}

func TestEveryCommandThatWritesTakesADryRun(t *testing.T) {
	f := newEnv(t)
	for _, command := range []string{
		"cluster join", "cluster accept", "cluster deny", "cluster acknowledge", "cluster remove", "cluster remove-finalizers",
		"disrupt create", "disrupt stop", "disrupt pause", "freeze", "unfreeze", "rollout undo", "rollout pause", "rollout resume", "machine delete",
	} {
		f.Expect(f.succeeds(command+" --help")).To(ContainSubstring("--dry-run none|server|client"), command)
		f.Expect(f.completes(command+" x", "--dry-run=")).To(ContainElements("client", "server"), command)
	}
}

// Edge case: Escape codes reached terminals. Also: hub/cli/cmdutil TestControlCharactersAreEscaped, FuzzEscaped.
func TestControlCharactersOfAnAgentDoNotReachTheTerminal(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME --accept=now")
	f.find("1")
	cluster := f.cluster()
	cluster.Status.Conditions[0].Message = "\x1b[2J\x1b]0;owned\x07all is well\u009b31m"
	cluster.Status.KubernetesVersion = "v1.37.1\x1b[31m"
	f.ExpectStatusApplied(cluster)
	r := f.hollow("cluster acknowledge NAME --yes --wait=false")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.errOut).To(And(ContainSubstring(`\x1b[2J\x1b]0;owned\x07all is well\x9b31m`), Not(ContainSubstring("\x1b")), Not(ContainSubstring("\u009b"))))
	f.Expect(f.succeeds("cluster list NAME -o jsonpath={.status.kubernetesVersion}")).To(Equal(`v1.37.1\x1b[31m`))
}

// machine makes one that has the agent's finalizer.
func (f *env) machine(name string) *v1alpha1.Machine {
	f.T.Helper()
	machine := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: name, Finalizers: []string{v1alpha1.MachineFinalizer}},
		Spec:       v1alpha1.MachineSpec{ClusterName: f.name, MachineTemplateBody: testenv.Template(nil).Spec},
	}
	f.ExpectApplied(machine)
	return machine
}

// loadTestRun makes one that has these finalizers.
func (f *env) loadTestRun(name string, finalizers ...string) *metav1.PartialObjectMetadata {
	f.T.Helper()
	run := &v1alpha1.LoadTestRun{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: name, Finalizers: finalizers}}
	run.Spec.Steps = []v1alpha1.LoadStep{{Name: "wait", Phases: []v1alpha1.LoadPhase{{Action: v1alpha1.LoadWait, Duration: &metav1.Duration{Duration: time.Second}}}}}
	f.ExpectApplied(run)
	header := &metav1.PartialObjectMetadata{ObjectMeta: run.ObjectMeta}
	header.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("LoadTestRun"))
	return header
}

// deleteNamespace asks for the deletion of the env's namespace, and waits until these objects in it are being deleted.
func (f *env) deleteNamespace(held ...client.Object) {
	f.T.Helper()
	f.ExpectDeleted(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.name}})
	for _, object := range held {
		f.Eventually(func() (*metav1.Time, error) {
			err := f.Client.Get(f.T.Context(), client.ObjectKeyFromObject(object), object)
			return object.GetDeletionTimestamp(), err
		}).WithTimeout(patience).ShouldNot(BeNil(), "Kubernetes deletes what is in the namespace")
	}
}

// Edge case: LoadTestRuns kept namespaces Terminating. Also: TestOnlyTheAgentsFinalizerIsTakenOffALoadTestRunThatMayBeUndecodable.
func TestFinalizersAreRemovedOnlyInANamespaceThatIsBeingDeleted(t *testing.T) {
	f := newEnv(t)
	f.fails(3, "does not exist", "cluster remove-finalizers NAME --yes")
	f.deployment(1)
	held, loaded := f.machine("held"), f.loadTestRun("loaded", v1alpha1.LoadTestRunFinalizer)
	f.fails(4, "is not being deleted", "cluster remove-finalizers NAME --yes")
	f.deleteNamespace(held, loaded)
	f.fails(2, "needs --yes", "cluster remove-finalizers NAME")
	for mode, mark := range map[string]string{"client": " (dry run)\n", "server": " (server dry run)\n"} {
		f.Expect(f.succeeds("cluster remove-finalizers NAME --dry-run=" + mode)).To(And(
			ContainSubstring("machine.hollowfleet.io/held finalizer removed"+mark), ContainSubstring("loadtestrun.hollowfleet.io/loaded finalizer removed"+mark)))
	}
	for _, object := range []client.Object{held, loaded} {
		f.ExpectExists(object)
		f.Expect(object.GetFinalizers()).NotTo(BeEmpty())
	}
	r := f.hollow("cluster remove-finalizers NAME --yes -o wide")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.out).To(And(ContainSubstring("machine.hollowfleet.io/held finalizer removed\n"), ContainSubstring("loadtestrun.hollowfleet.io/loaded finalizer removed\n"),
		ContainSubstring("namespace/"+f.name+" deleted"), MatchRegexp(`Machines given up: +1\n`), MatchRegexp(`LoadTestRuns given up: +1\n`)))
	f.Expect(r.errOut).To(ContainSubstring("kubectl get namespaces -l "+v1alpha1.LoadTestRunUIDLabel+"="+string(loaded.UID)), "no object has the UID any more")
}

// The API server deletes the objects of a namespace seconds after the namespace.
// Edge case: `remove-finalizers` listed once.
func TestFinalizersOfObjectsThatComeIntoDeletionLaterAreRemovedToo(t *testing.T) {
	f := newEnv(t)
	f.deployment(1)
	f.machine("held")
	f.loadTestRun("loaded", v1alpha1.LoadTestRunFinalizer)
	f.deleteNamespace()
	r := f.hollow("cluster remove-finalizers NAME --yes -o wide --timeout 60s")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.out).To(And(ContainSubstring("machine.hollowfleet.io/held finalizer removed\n"), ContainSubstring("loadtestrun.hollowfleet.io/loaded finalizer removed\n"),
		ContainSubstring("namespace/"+f.name+" deleted"), MatchRegexp(`Machines given up: +1\n`), MatchRegexp(`LoadTestRuns given up: +1\n`)))
}

func TestWhoRemovesFinalizersIsToldOfMachinesAndLoadTestRuns(t *testing.T) {
	f := newEnv(t)
	f.deployment(1)
	held, loaded := f.machine("held"), f.loadTestRun("loaded", v1alpha1.LoadTestRunFinalizer)
	f.deleteNamespace(held, loaded)
	screen := newTerminal(t)
	_, err := screen.keyboard.Write([]byte("n\n"))
	f.Expect(err).NotTo(HaveOccurred())
	var out bytes.Buffer
	line := []string{"cluster", "remove-finalizers", f.name, "--kubeconfig", testenv.Server().Cluster.AdminKubeconfig()}
	f.Expect(cli.Execute(t.Context(), line, genericiooptions.IOStreams{In: screen.file, Out: &out, ErrOut: &out})).To(Equal(4), out.String)
	f.Expect(out.String()).To(And(ContainSubstring("Force-remove 1 Machine and 1 LoadTestRun of namespace "+f.name+"?"), ContainSubstring("keep their finalizers")))
	f.succeeds("cluster remove-finalizers NAME --yes")
}

func TestOnlyTheAgentsFinalizerIsTakenOffALoadTestRunThatMayBeUndecodable(t *testing.T) {
	f := newEnv(t)
	f.namespace()
	const other = "example.com/other"
	both, foreign := f.loadTestRun("both", v1alpha1.LoadTestRunFinalizer, other), f.loadTestRun("foreign", other)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"stopped":"a while"}}`))
	f.Expect(testenv.Server().Loosely(t.Context(), func(ctx context.Context) error {
		return f.Client.Patch(ctx, both.DeepCopy(), patch)
	}, "loadtestruns.hollowfleet.io")).To(Succeed())
	f.deleteNamespace(both, foreign)
	f.Expect(f.succeeds("cluster remove-finalizers NAME --yes --wait=false")).To(Equal("loadtestrun.hollowfleet.io/both finalizer removed\n"))
	for _, run := range []*metav1.PartialObjectMetadata{both, foreign} {
		f.ExpectExists(run)
		f.Expect(run.Finalizers).To(ConsistOf(other))
		f.Expect(f.Client.Patch(t.Context(), run, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
	}
}

// Edge case: Typos were not corrected. Also: TestRevisionsAreCompleted.
func TestNearNamesAreSuggested(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME")
	near := f.name[:len(f.name)-1]
	f.fails(3, "did you mean "+f.name+"?", "cluster deny "+near)
	f.fails(3, "did you mean "+f.name+"?", "cluster list "+near)
	f.fails(2, "did you mean rollout?", "rolout")
	f.fails(2, "did you mean list?", "cluster lst")
}

func TestRevisionsAreCompleted(t *testing.T) {
	f := newEnv(t)
	f.deployment(2)
	f.revisions("v1.35.2", "v1.36.2")
	f.Expect(f.completes("rollout undo machinedeployment workers -n "+f.name, "--to-revision=")).To(ConsistOf("1\tv1.35.2", "2\tv1.36.2"))
}
