package cli_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// A cluster that has left its fleet, and one whose Cluster object is gone, are named with what is left there.
// Claim: `fleet status` names clusters that left. Broken: a cluster that left in the middle of a rollout has its row as before.
// Edge case: Departed clusters vanished.
func TestFleetStatusNamesClustersThatHaveLeft(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	f.Expect(f.succeeds("fleet status NAME")).NotTo(ContainSubstring(" Left "))

	left := f.clusters[1]
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: left.Name}, left)).To(Succeed())
	left.Labels = nil
	f.ExpectApplied(left)
	f.reconcile()
	out := f.succeeds("fleet status NAME")
	f.Expect(out).To(MatchRegexp(left.Name + ` +- +- +Left +- +v1.36.2 .* the fleet no longer selects it; still there: MachineDeployment ` + f.name + ` with 2 of its Machines`))

	f.ExpectDeleted(left)
	f.reconcile()
	out = f.stops(1, "has Machines without an agent, in the namespaces of clusters that no longer exist: "+left.Name, "fleet status NAME")
	f.Expect(out).To(MatchRegexp(left.Name + ` +- .* Left .*2 of its Machines in its namespace has no agent: kubectl hollow cluster join ` + left.Name))

	// What another fleet of the same name had is not this one's.
	other := &v1alpha1.MachineDeployment{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Namespace: left.Name, Name: f.name}, other)).To(Succeed())
	other.Annotations[v1alpha1.FleetRecordAnnotation] = `{"fleet":"` + f.name + `","uid":"another"}`
	f.ExpectApplied(other)
	f.Expect(f.succeeds("fleet status NAME")).NotTo(ContainSubstring(" Left "))
}
