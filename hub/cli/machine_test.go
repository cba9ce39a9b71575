package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli"
	"github.com/hollowfleet/hollowfleet/hub/cli/machine"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// machineEnv is a Machine of a set in a cluster, which is the env's name.
type machineEnv struct {
	*env
	cluster *v1alpha1.Cluster
	set     *v1alpha1.MachineSet
	machine *v1alpha1.Machine
}

// newMachineEnv makes a Machine whose Node has joined and is not ready.
func newMachineEnv(t *testing.T) *machineEnv {
	t.Helper()
	f := &machineEnv{env: newEnv(t)}
	f.cluster = f.AcceptedCluster()
	f.name = f.cluster.Name
	f.ExpectConditionApplied(f.cluster, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionTrue, "AgentConnected")
	labels := map[string]string{"app": "x"}
	template := testenv.Template(labels)
	f.ExpectApplied(&v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "small"}, Spec: v1alpha1.MachineClassSpec{Provider: v1alpha1.ProviderHollow}})
	f.set = &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "workers-1"},
		Spec:       v1alpha1.MachineSetSpec{ClusterName: f.name, Replicas: new(int32(1)), Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: template},
	}
	f.ExpectApplied(f.set)
	f.machine = &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.name, Name: "workers-1-a", Labels: labels, Finalizers: []string{v1alpha1.MachineFinalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(f.set, v1alpha1.GroupVersion.WithKind("MachineSet"))},
		},
		Spec: v1alpha1.MachineSpec{ClusterName: f.name, MachineTemplateBody: template.Spec},
	}
	f.ExpectApplied(f.machine)
	f.machine.Status = v1alpha1.MachineStatus{
		ObservedGeneration: 1, Phase: v1alpha1.MachineRunning, NodeRef: &v1alpha1.NodeReference{Kind: "Node", Name: f.machine.Name, UID: "a"},
		Versions: &v1alpha1.ObservedVersions{Kubelet: "v1.36.2", KubeletCode: "v1.37.1"},
		Conditions: []metav1.Condition{
			{Type: v1alpha1.MachinePodRunningCondition, Status: metav1.ConditionTrue, Reason: "Running", LastTransitionTime: metav1.NewTime(time.Now().Add(-60 * 24 * time.Hour))},
			{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: "NodeNotReady", Message: "the kubelet is \x1b[31msilent", LastTransitionTime: metav1.NewTime(time.Now().Add(-5 * 24 * time.Hour))},
		},
	}
	f.ExpectStatusApplied(f.machine)
	return f
}

// happens makes an event about an object.
func (f *machineEnv) happens(kind string, regarding metav1.ObjectMeta, eventType, reason, note string) {
	f.T.Helper()
	f.ExpectApplied(&eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.name, GenerateName: "e-"}, EventTime: metav1.NowMicro(), Type: eventType, Reason: reason, Note: note, Action: "Test",
		ReportingController: "test", ReportingInstance: "test",
		Regarding: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Namespace: f.name, Name: regarding.Name, UID: regarding.UID},
	})
}

// Claim: `machine get` has all of a Machine on one screen, without the workload cluster. Broken: events of an earlier Machine of the name; a message is a command to the terminal.
func TestAMachineIsShownOnOneScreen(t *testing.T) {
	f := newMachineEnv(t)
	f.happens("Machine", f.machine.ObjectMeta, "Warning", "NodeNotReady", "its <b>kubelet</b>\nis \x1b]0;silent")
	f.happens("Machine", metav1.ObjectMeta{Name: f.machine.Name, UID: "of-another"}, "Normal", "Earlier", "another Machine of this name")
	f.happens("MachineSet", f.set.ObjectMeta, "Warning", "CreationFailed", "no room")
	f.happens("MachineSet", f.set.ObjectMeta, "Normal", "Created", "created workers-1-b")
	f.Eventually(func(g Gomega) {
		r := f.hollow("machine get workers-1-a -n NAME --tail 0")
		g.Expect(r.code).To(Equal(0), r.errOut)
		for _, want := range []string{
			"Machine " + f.name + "/workers-1-a: Problem since 5d ago: NodeNotReady", "Phase:       Running", "its agent is connected",
			"MachineSet workers-1, 0 of 1 ready", "Class:       small", "Provider:    hollow", "v1.36.2 reported, by code of v1.37.1", "Pod:         workers-1-a, running: True",
			"PodRunning", "60d", `its <b>kubelet</b> is \x1b]0;silent`, `\x1b[31msilent`, "CreationFailed",
		} {
			g.Expect(r.out).To(ContainSubstring(want))
		}
		g.Expect(r.out).NotTo(Or(ContainSubstring("Earlier"), ContainSubstring("workers-1-b"), ContainSubstring("\x1b")))
	}).WithTimeout(patience).Should(Succeed())
	var document struct {
		APIVersion, Kind, State, Reason, Provider string
		Machine                                   v1alpha1.Machine
		Owners                                    []struct{ Kind, Name string }
		Events                                    []struct{ Object, Reason string }
	}
	f.Expect(json.Unmarshal([]byte(f.succeeds("machine get workers-1-a -n NAME -o json --tail 0")), &document)).To(Succeed())
	f.Expect(document.APIVersion + " " + document.Kind + " " + document.State + " " + document.Reason).To(Equal("cli.hollowfleet.io/v1 MachineStory Problem NodeNotReady"))
	f.Expect(document.Machine.UID).To(Equal(f.machine.UID))
	f.Expect(document.Owners).To(ConsistOf(HaveField("Name", "workers-1")))
	f.Expect(document.Events).To(ConsistOf(HaveField("Object", "Machine/workers-1-a"), HaveField("Object", "MachineSet/workers-1")))
	f.Expect(f.completes("machine get -n "+f.name, "")).To(ConsistOf("workers-1-a"))
	f.fails(3, "kubectl get machines -n "+f.name, "machine get nope -n NAME")
	f.fails(2, "leave -o out", "machine get workers-1-a -n NAME -w -o json")
	f.fails(2, "unknown format", "machine get workers-1-a -n NAME -o table")
}

// What a user may not read is named, and the rest is shown.
func TestAMachineOfAUserWhoMayReadLittle(t *testing.T) {
	f := newMachineEnv(t)
	f.ExpectApplied(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "little"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"machines"}, Verbs: []string{"get"}},
	}}, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "little"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "little"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: f.name}}})
	f.Eventually(func(g Gomega) {
		r := f.hollow("machine get workers-1-a -n NAME", "--as", f.name)
		g.Expect(r.code).To(Equal(4), r.errOut)
		g.Expect(r.errOut).To(ContainSubstring("you may not list: Cluster, Event, MachineClass, MachineSet"))
		g.Expect(r.out).To(And(ContainSubstring("NodeNotReady"), ContainSubstring("Left out: MachineClass: you may not list them"),
			ContainSubstring("Log: not read: asking for the log"), ContainSubstring("kubectl --kubeconfig WORKLOAD-KUBECONFIG logs workers-1-a -n hollowfleet -c hollow-node --tail 10")))
	}).WithTimeout(patience).Should(Succeed())
	r := f.hollow("machine delete workers-1-a -n NAME --yes", "--as", f.name)
	f.Expect(r.code).To(Equal(4), r.errOut)
	f.Expect(r.errOut).To(And(ContainSubstring("You may not list MachineSets: whether it is replaced is not known"), ContainSubstring("cannot delete")))
	f.ExpectExists(f.machine)
	f.Expect(f.machine.DeletionTimestamp).To(BeNil())
}

// A Machine that is followed is shown again when it changes, and its deletion ends the command.
func TestAMachineIsFollowed(t *testing.T) {
	f := newMachineEnv(t)
	var out screenText
	ended := make(chan run, 1)
	go func() { ended <- f.hollowOn(t.Context(), &out, "machine get workers-1-a -n NAME -w") }()
	f.Eventually(out.String).WithTimeout(patience).Should(ContainSubstring("NodeNotReady"))
	f.ExpectExists(f.machine)
	f.machine.Status.Conditions[1].Reason = "KubeletStopped"
	f.ExpectStatusApplied(f.machine)
	f.Eventually(out.String).WithTimeout(patience).Should(ContainSubstring("KubeletStopped"))
	f.machine.Finalizers = nil
	f.ExpectApplied(f.machine)
	f.ExpectDeleted(f.machine)
	var r run
	f.Eventually(ended).WithTimeout(patience).Should(Receive(&r))
	f.Expect(r.code).To(Equal(3), r.errOut)
}

// Claim: What is shown of a Machine while the hub does not work is called the last known state. Broken: the hub is not looked at.
func TestAMachineWhileTheHubIsStopped(t *testing.T) {
	f := newMachineEnv(t)
	f.Expect(f.succeeds("machine get workers-1-a -n NAME --tail 0")).NotTo(ContainSubstring("last known state"))
	f.renewHub(longStopped())
	f.Expect(f.succeeds("machine get workers-1-a -n NAME --tail 0")).To(HavePrefix("This is the last known state: the hub does not work: "))
	document := machine.Document{}
	f.Expect(json.Unmarshal([]byte(f.succeeds("machine get workers-1-a -n NAME --tail 0 -o json")), &document)).To(Succeed())
	f.Expect(document.Stale).To(ConsistOf(HavePrefix("the hub does not work: ")))
	r := f.hollow("machine delete workers-1-a -n NAME --dry-run")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.errOut).To(ContainSubstring("This is the last known state, and no Machine is replaced meanwhile: the hub does not work: "))
}

// Claim: `machine delete` says first what will happen, and asks. Broken: it deletes where it cannot ask; a frozen cluster is not named.
func TestADeletionOfAMachineIsToldBefore(t *testing.T) {
	f := newMachineEnv(t)
	f.fails(2, "needs --yes", "machine delete workers-1-a -n NAME")
	r := f.hollow("machine delete workers-1-a -n NAME --dry-run")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.out).To(Equal("machine.hollowfleet.io/workers-1-a would be deleted (dry run)\n"))
	f.Expect(r.errOut).To(And(ContainSubstring("Node workers-1-a is drained within disruption budgets for at most 2h"), ContainSubstring("MachineSet workers-1 replaces it: it wants 1"),
		Not(ContainSubstring("frozen"))))
	f.ExpectExists(f.machine)
	f.Expect(f.machine.DeletionTimestamp).To(BeNil(), "a dry run deletes nothing")

	f.ExpectConditionApplied(f.cluster, v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonManualFreeze)
	r = f.hollow("machine delete workers-1-a -n NAME --yes --wait --timeout 2s")
	f.Expect(r.code).To(Equal(5), r.errOut)
	f.Expect(r.out).To(BeEmpty(), "it is not deleted yet")
	f.Expect(r.errOut).To(And(ContainSubstring("frozen (ManualFreeze): said by the test: nothing is drained or removed before it is unfrozen"),
		ContainSubstring("is still being deleted after 2s: NodeNotReady")))
	f.Expect(f.succeeds("machine delete workers-1-a -n NAME --yes")).To(ContainSubstring("is being deleted already"))

	ended := make(chan run, 1)
	var out screenText
	go func() { ended <- f.execute(t.Context(), &out, "machine delete workers-1-a -n NAME --wait") }()
	f.Eventually(out.String).WithTimeout(patience).Should(ContainSubstring("is being deleted already"))
	f.Eventually(func() int { return f.FinishDeletions(f.name) }).WithTimeout(patience).Should(BeNumerically(">", 0))
	f.Eventually(ended).WithTimeout(patience).Should(Receive(&r))
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(out.String()).To(HaveSuffix("machine.hollowfleet.io/workers-1-a deleted\n"))
	f.fails(3, "does not exist in namespace", "machine delete workers-1-a -n NAME --yes")
}

// A hub that hangs does not keep the command waiting.
func TestAMachineOfAnAPIServerThatDoesNotAnswer(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var out bytes.Buffer
	line := strings.Fields("machine get a -n b --request-timeout 1s --kubeconfig " + silentServer(t))
	g.Expect(cli.Execute(ctx, line, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out})).To(Equal(5), out.String())
}
