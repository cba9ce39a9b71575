package cli_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// statusJSON is the documented shape, as a script reads it.
type statusJSON struct {
	APIVersion, Kind, Problem string
	Healthy                   bool
	Hub                       struct {
		Healthy bool
		Problem string
	}
	Kinds []struct {
		Kind, NotLookedAt                            string
		Forbidden                                    bool
		Total, Healthy, InProgress, Paused, Problems int
	}
	Objects []statusObject
}

// statusObject is one object that is not healthy.
type statusObject struct{ Kind, Namespace, Name, State, Reason, Message, Next string }

func (f *env) status(code int, more ...string) statusJSON {
	f.T.Helper()
	r := f.hollow("status -o json", more...)
	f.Expect(r.code).To(Equal(code), r.errOut)
	var found statusJSON
	f.Expect(json.Unmarshal([]byte(r.out), &found)).To(Succeed(), r.out)
	f.Expect(found.Healthy).To(Equal(code == 0))
	f.Expect(r.errOut).To(ContainSubstring(found.Problem))
	if code != 0 {
		f.Expect(found.Problem).NotTo(BeEmpty())
	}
	return found
}

// letHubWork writes the Lease of a hub that works, for longer than any test takes.
func (f *env) letHubWork() {
	f.T.Helper()
	f.writeLease(time.Now(), 24*60*60)
}

// renewHub renews the Lease as a hub does that was there at that time.
func (f *env) renewHub(renewed time.Time) {
	f.T.Helper()
	f.writeLease(renewed, 15)
}

// writeLease writes the Lease of a hub that renewed it at that time, for so many seconds.
func (f *env) writeLease(renewed time.Time, seconds int32) {
	f.T.Helper()
	f.Expect(client.IgnoreAlreadyExists(f.Client.Create(f.T.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HubNamespace}}))).To(Succeed())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.HubNamespace, Name: v1alpha1.HubLeaseName}}
	f.Expect(client.IgnoreNotFound(f.Client.Delete(f.T.Context(), lease.DeepCopy()))).To(Succeed())
	at := metav1.NewMicroTime(renewed)
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("hub-1"), RenewTime: &at, LeaseDurationSeconds: new(seconds)}
	f.ExpectApplied(lease)
}

func TestStatusNamesWhatIsNotHealthyOfEveryKind(t *testing.T) {
	f := newEnv(t)
	f.newCluster()
	f.deployment(1)
	f.ExpectApplied(&v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "lost"},
		Spec:       v1alpha1.MachineSpec{ClusterName: f.name, MachineTemplateBody: testenv.Template(nil).Spec},
	})
	r := f.hollow("status")
	f.Expect(r.code).To(Equal(1), r.errOut)
	f.Expect(r.errOut).To(And(ContainSubstring("the fleet is not healthy"), ContainSubstring("MachineDeployment"), ContainSubstring("Machine")))
	f.Expect(r.out).To(And(MatchRegexp(`(?m)^Hub: +works: hub-1`),
		MatchRegexp(`(?m)^Problem +Cluster +`+f.name+` +ClusterNotFound .*1 MachineDeployment, 1 Machine without an agent`)))
	found := f.status(1)
	f.Expect(found.APIVersion).To(Equal("cli.hollowfleet.io/v1"))
	f.Expect(found.Hub.Healthy).To(BeTrue())
	var kinds []string
	for _, kind := range found.Kinds {
		kinds = append(kinds, kind.Kind)
	}
	f.Expect(kinds).To(Equal([]string{"Cluster", "MachineFleet", "FleetApproval", "MachineDeployment", "MachineSet", "Machine", "MachineClass",
		"NodeDisruption", "NodeDisruptionRun", "LoadTest", "LoadTestRun", "SimulatedClusterSet", "SimulatedCluster"}))
	f.Expect(found.Objects).To(ContainElement(And(HaveField("Kind", "Machine"), HaveField("Namespace", f.name), HaveField("Name", "lost"),
		HaveField("State", "Problem"), HaveField("Reason", v1alpha1.ReasonClusterNotFound), HaveField("Next", "kubectl hollow cluster join "+f.name))))
	f.Expect(f.succeeds("version -o json")).To(And(ContainSubstring(`"kind": "Version"`), ContainSubstring(`"holder": "hub-1"`)))
	f.Expect(f.succeeds("version -o yaml --client")).To(And(ContainSubstring("kind: Version"), Not(ContainSubstring("hub:"))))
	f.fails(2, `unknown format "xml"`, "status -o xml")
}

// newCluster makes a Cluster that is accepted and that no agent has reported for.
func (f *env) newCluster() { f.AcceptedCluster() }

func TestStatusSaysThatAHubThatIsStoppedDoesNotWork(t *testing.T) {
	f := newEnv(t)
	f.renewHub(time.Now().Add(-time.Minute))
	out := f.stops(1, "the hub does not work", "status")
	f.Expect(out).To(MatchRegexp(`(?m)^Hub: +the hub hub-1 has not renewed its Lease for 1m`))
	f.Expect(f.status(1).Hub.Problem).To(ContainSubstring("has not renewed its Lease"))
}

// as runs a command as another user, whom the hub's API server lets do nothing but what is granted.
func (f *env) as(user, args string, more ...string) run {
	f.T.Helper()
	return f.hollow(args, append(more, "--as", user)...)
}

func TestStatusOfAUserWithoutRightsIsNotHealthy(t *testing.T) {
	f := newEnv(t)
	r := f.as(f.name, "status")
	f.Expect(r.code).To(Equal(4), r.errOut)
	f.Expect(r.errOut).To(And(ContainSubstring("is unknown"), ContainSubstring("the Lease of the hub"), ContainSubstring("LoadTestRun")))
	f.Expect(r.out).To(And(MatchRegexp(`(?m)^Hub: +not checked: `), MatchRegexp(`(?m)^MachineFleet: +not checked: .*cannot list resource`)))
	f.Expect(f.status(4, "--as", f.name).Kinds).To(HaveEach(HaveField("Forbidden", true)))

	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: f.name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"machines"}, Verbs: []string{"list"}},
	}}
	f.ExpectApplied(role)
	f.ExpectApplied(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: f.name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: f.name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: f.name}}})
	f.namespace()
	failed := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "failed"},
		Spec:       v1alpha1.MachineSpec{ClusterName: f.name, MachineTemplateBody: testenv.Template(nil).Spec},
	}
	f.ExpectApplied(failed)
	failed.Status.Phase, failed.Status.ObservedGeneration = v1alpha1.MachineFailed, failed.Generation
	f.ExpectConditionApplied(failed, v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ErrorInvalidConfiguration)
	f.Eventually(func() int { return f.as(f.name, "status").code }).WithTimeout(patience).Should(Equal(1), "what it may see is a problem")
	f.Expect(f.as(f.name, "status").errOut).To(And(MatchRegexp(`\d+ of \d+ Machine`), ContainSubstring("; not checked: ")))
}

func TestASupportBundleOfAUserWithoutRightsSaysWhatIsLeftOut(t *testing.T) {
	f := newEnv(t)
	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	r := f.as(f.name, "support-bundle --output-file", path)
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.errOut).To(ContainSubstring("Left out: versions.txt: "))
	files := f.unpack(path)
	f.Expect(files["versions.txt"]).To(ContainSubstring("Client: "))
	f.Expect(strings.Split(strings.TrimSpace(files["problems.txt"]), "\n")).To(HaveLen(19), files["problems.txt"])
}

func TestWithoutACommandTheHelpIsPrinted(t *testing.T) {
	f := newEnv(t)
	var out, errOut bytes.Buffer
	code := cli.Execute(t.Context(), nil, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut})
	f.Expect(code).To(Equal(0), errOut.String())
	f.Expect(out.String()).To(ContainSubstring("support-bundle"))
}
