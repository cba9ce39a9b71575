package cli_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// A fleet on its first rollout that waits for an approval has nothing that is unavailable: it waits, and status gives the command.
func TestStatusOfAFirstRolloutThatWaitsForApproval(t *testing.T) {
	f := newFleetEnv(t)
	fleet := &v1alpha1.MachineFleet{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: f.name}, fleet)).To(Succeed())
	fleet.Spec.Groups[0].Approval = v1alpha1.GroupApprovalRequired
	f.ExpectApplied(fleet)
	f.reconcile()
	of := func() statusObject {
		for _, object := range f.status(1).Objects { // Other things of the test's API server are not healthy.
			if object.Kind == "MachineFleet" && object.Name == f.name {
				return object
			}
		}
		return statusObject{}
	}
	f.Expect(of()).To(And(HaveField("State", "Waiting"), HaveField("Reason", v1alpha1.ReasonAwaitingApproval),
		HaveField("Next", "kubectl hollow rollout approve machinefleet "+f.name+" --group canary")))
	f.label(f.clusters[0].Name, "elsewhere")
	f.reconcile()
	f.Expect(of()).To(HaveField("State", "Problem"), "the mandatory group has lost its cluster")
}

// label puts a cluster into another group.
func (f *fleetEnv) label(name, group string) {
	f.T.Helper()
	cluster := &v1alpha1.Cluster{}
	f.Expect(f.Client.Get(f.T.Context(), client.ObjectKey{Name: name}, cluster)).To(Succeed())
	cluster.Labels["group"] = group
	f.ExpectApplied(cluster)
}
