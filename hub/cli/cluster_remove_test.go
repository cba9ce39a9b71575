package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestRemoveLeavesMachines(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME --accept=now")
	f.namespace()
	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "m1", Finalizers: []string{v1alpha1.MachineFinalizer}},
		Spec: v1alpha1.MachineSpec{ClusterName: f.name, MachineTemplateBody: testenv.Template(nil).Spec}}
	f.ExpectApplied(machine)
	f.fails(2, "needs --yes", "cluster remove NAME")
	r := f.hollow("cluster remove NAME --yes")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.out).To(ContainSubstring("cluster.hollowfleet.io/" + f.name + " removed"))
	f.Expect(r.errOut).To(ContainSubstring("1 Machine left"))
	f.Expect(f.tokens()).To(BeEmpty())
	f.ExpectExists(machine)
	f.Expect(machine.DeletionTimestamp).To(BeNil())
}

func TestRemoveSaysThatTheHubHasNotTakenTheAccessAway(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME")
	cluster := f.cluster()
	cluster.Finalizers = []string{v1alpha1.ClusterFinalizer}
	f.ExpectApplied(cluster)
	f.renewHub(longStopped())
	r := f.hollow("cluster remove NAME --yes --timeout 100ms")
	f.Expect(r.code).To(Equal(5))
	f.Expect(r.errOut).To(ContainSubstring("the hub does not work"))
	f.fails(4, "is being removed", "cluster accept NAME")
}

func TestUnknownClusters(t *testing.T) {
	f := newEnv(t)
	for _, command := range []string{"list", "accept", "deny", "remove --yes"} {
		f.fails(3, "does not exist", "cluster "+command+" NAME")
	}
}

// Edge case: `cluster list c1 nope` lost c1.
func TestList(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME --labels name=NAME")
	f.report(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonUnreachable)
	f.Expect(f.succeeds("cluster list NAME")).To(MatchRegexp(`(?s)^NAME +ACCEPTANCE.*\n` + f.name + ` +Pending +False \(Unreachable\)`))
	f.Expect(f.succeeds("cluster list -o name -l name=NAME")).To(Equal("cluster.hollowfleet.io/" + f.name + "\n"))
	f.Expect(f.succeeds("cluster list NAME -o wide --no-headers")).To(ContainSubstring("as the hub says"))
	list := struct {
		Kind  string
		Items []v1alpha1.Cluster
	}{}
	f.Expect(json.Unmarshal([]byte(f.succeeds("cluster list -o json -l name=NAME")), &list)).To(Succeed())
	f.Expect(list.Kind).To(Equal("ClusterList"))
	f.Expect(list.Items).To(HaveLen(1))
	f.Expect(list.Items[0].Kind).To(Equal("Cluster"))
	f.Expect(f.stops(3, "cluster nope does not exist", "cluster list NAME nope")).To(ContainSubstring(f.name), "what exists is listed")
	f.fails(2, "--selector", "cluster list -l a==b==c")
	f.fails(2, "--watch prints a table", "cluster list -w -o yaml")
	f.fails(2, "xml", "cluster list -o xml")
	r := f.hollow("cluster list -l name=absent")
	f.Expect(r.code).To(Equal(0))
	f.Expect(r.errOut).To(ContainSubstring("No clusters"))
}

func TestCompletionOffersClusters(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME")
	for _, words := range []string{"cluster accept", "cluster list", "freeze cluster"} {
		f.Expect(f.completes(words, "")).To(ContainElement(f.name), words)
	}
	f.Expect(f.completes("cluster accept "+f.name, "")).To(BeEmpty())
	f.Expect(f.completes("cluster list "+f.name, "")).NotTo(ContainElement(f.name))
	kinds := []string{"cluster", "machinefleet", "machinedeployment", "machineset"}
	for _, command := range []string{"freeze", "unfreeze"} {
		f.Expect(f.completes(command, "")).To(Equal(kinds))
		f.Expect(f.succeeds(command + " --help")).To(ContainSubstring(command + " (" + strings.Join(kinds, "|") + ") NAME"))
	}
	f.Expect(f.completes("cluster join x", "--accept=")).To(ContainElement("auto"))
}
