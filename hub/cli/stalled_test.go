package cli_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// A rollout that a user has to repair ends at once, with what the object says.
// Claim: `rollout status` ends with 4 once Stalled or paused. Broken: Stalled is looked at after all the rest. Also: TestAFleetIsPausedAndResumed; hub/cli/rollout TestProgress, TestProgressOfAFleet.
func TestStatusEndsWhenTheObjectIsStalled(t *testing.T) {
	f := newEnv(t)
	f.deployment(2)
	f.counts(1, 1)
	d := f.workers()
	meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: "MachineClassNotFound", Message: "no MachineClass smal",
	})
	f.ExpectStatusApplied(d)
	f.stops(5, "MachineClassNotFound: no MachineClass smal", "rollout status machinedeployment workers -n NAME --timeout 100ms")
	meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{
		Type: v1alpha1.StalledCondition, Status: metav1.ConditionTrue, Reason: "MachineClassNotFound", Message: "create it, or use another class",
	})
	f.ExpectStatusApplied(d)
	f.stops(4, "MachineClassNotFound: create it, or use another class", "rollout status machinedeployment workers -n NAME --timeout 10s")
}

// Who waits for a rollout is told that nobody works on it.
func TestARolloutThatWaitsForAStoppedHubSaysSo(t *testing.T) {
	f := newEnv(t)
	f.deployment(2)
	f.renewHub(time.Now().Add(-time.Hour))
	r := f.hollow("rollout status machinedeployment workers -n NAME --timeout 1s")
	f.Expect(r.code).To(Equal(5), r.errOut)
	f.Expect(r.errOut).To(ContainSubstring("Nothing happens for now: the hub does not work: the hub hub-1 has not renewed its Lease for 1h0m"))
	f.letHubWork()
	f.Expect(f.hollow("rollout status machinedeployment workers -n NAME --timeout 1s").errOut).NotTo(ContainSubstring("does not work"))
}

// An upgrade that can start in no cluster is not written, but with --force.
// Claim: `upgrade` writes no version that can start nowhere. Broken: blocked clusters count as able to start; --force always, and never; a cluster counts as one that cannot be read. Also: TestAnUpgradeOfADeploymentThatItsClusterDoesNotSupportIsRefused.
func TestAnUpgradeThatCanStartNowhereIsRefused(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	f.fails(4, "it cannot start in any of its 2 clusters", "upgrade fleet/NAME --kubelet v1.38.0")
	f.stops(4, "--force", "upgrade fleet/NAME --kubelet v1.38.0 --dry-run=server")
	f.Expect(f.kubelet()).To(Equal("v1.36.2"))

	cluster := f.clusters[1]
	f.ExpectExists(cluster)
	cluster.Status.KubernetesVersion = "v1.38.0"
	f.ExpectStatusApplied(cluster)
	f.succeeds("upgrade fleet/NAME --kubelet v1.38.0 --dry-run")
	f.fails(4, "it cannot start in any of its 2 clusters", "upgrade fleet/NAME --kubelet v1.39.0")
	f.succeeds("upgrade fleet/NAME --kubelet v1.39.0 --force")
	f.Expect(f.kubelet()).To(Equal("v1.39.0"))
	f.reconcile()
	history := f.succeeds("rollout history machinefleet NAME")
	f.Expect(history).To(MatchRegexp(`- +\* +0 +v1.39.0 +not started`), "the template that was started nowhere is listed too")
	f.stops(4, "does not roll out", "rollout status fleet/NAME")
}

func TestAnUpgradeOfADeploymentThatItsClusterDoesNotSupportIsRefused(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	cluster := f.clusters[0].Name
	f.fails(4, "upgrade the API server of cluster "+cluster, "upgrade machinedeployment/NAME --kubelet v1.99.0 --dry-run -n "+cluster)
	f.fails(4, "upgrade the API server of cluster "+cluster, "upgrade machinedeployment/NAME --kubelet v1.99.0 -n "+cluster)
	f.succeeds("upgrade machinedeployment/NAME --kubelet v1.99.0 --force --dry-run -n " + cluster)
}

// A cluster that leaves in the middle of a rollout counts among those of the rollout.
func TestNoMoreClustersAreUpdatedThanThereAre(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	fleet := f.fleet()
	fleet.Status.Clusters.Selected = 1
	f.ExpectStatusApplied(fleet)
	f.Expect(f.succeeds("rollout status fleet/NAME --watch=false")).To(ContainSubstring("2 of 2 clusters updated"))
}

func (f *fleetEnv) fleet() *v1alpha1.MachineFleet {
	f.T.Helper()
	fleet := &v1alpha1.MachineFleet{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	f.ExpectExists(fleet)
	return fleet
}
