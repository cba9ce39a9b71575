package cli_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func (f *fleetEnv) spec() *v1alpha1.MachineFleetSpec {
	f.T.Helper()
	fleet := &v1alpha1.MachineFleet{}
	f.Expect(f.Client.Get(f.T.Context(), client.ObjectKey{Name: f.name}, fleet)).To(Succeed())
	return &fleet.Spec
}

func TestARolloutOfAFleetIsAborted(t *testing.T) {
	f := newFleetEnv(t)
	f.fails(4, "the hub has not observed its current template yet", "rollout abort fleet/NAME")
	f.settle()
	f.fails(4, "is complete: to go back, kubectl hollow rollout undo", "rollout abort fleet/NAME")
	f.fails(3, "does not exist", "rollout abort fleet/nothing")
	f.Expect(f.spec().AbortedRevision).To(BeEmpty(), "a refused abort writes nothing")
	f.Expect(f.completes("rollout abort machinefleet "+f.name, "--rollback=")).To(ConsistOf("none", "failed", "all"))

	f.succeeds("upgrade fleet/NAME --kubelet v1.37.1")
	f.reconcile()
	f.report(f.clusters[0], false)
	f.reconcile()
	f.Expect(f.succeeds("rollout abort fleet/NAME --dry-run")).To(ContainSubstring("(dry run)"))
	f.Expect(f.spec().AbortedRevision).To(BeEmpty())
	f.Expect(f.succeeds("rollout abort machinefleet NAME")).To(MatchRegexp("aborted at revision [0-9a-f]+, with rollbackPolicy None"))
	f.Expect(f.succeeds("rollout abort machinefleet NAME")).To(ContainSubstring("is aborted already"))
	f.reconcile()
	f.Expect(f.stops(5, "spec.abortedRevision is this revision", "rollout status fleet/NAME")).To(ContainSubstring("is aborted"))
	f.Expect(f.hollow("fleet list").out).To(ContainSubstring("(Aborted)"))

	f.Expect(f.succeeds("rollout abort machinefleet NAME --rollback all")).To(ContainSubstring("rollbackPolicy All"), "the policy can be chosen later")
	f.reconcile()
	f.Expect(f.succeeds("rollout status fleet/NAME --watch=false")).To(ContainSubstring("clusters get their previous template back"))
	for range 2 {
		f.report(f.clusters[0], false)
		f.report(f.clusters[1], false)
		f.reconcile()
	}
	f.Expect(f.stops(5, "was rolled back", "rollout status fleet/NAME")).To(ContainSubstring("was rolled back"))
	r := f.hollow("fleet status NAME")
	f.Expect(r.code).To(Equal(1))
	f.Expect(r.out).To(MatchRegexp(f.clusters[0].Name + ` +1 +canary +RolledBack .* v1.36.2`))
	f.fails(4, "was rolled back already", "rollout abort fleet/NAME --rollback failed")
	history := f.succeeds("rollout history machinefleet NAME")
	f.Expect(history).To(MatchRegexp(`1 +2 +v1.36.2`), "both clusters have the earlier template")

	f.Expect(f.succeeds("rollout undo fleet/NAME")).To(ContainSubstring("rolled back to revision 1"), "no cluster has a newer kubelet any more")
	f.reconcile()
	f.Expect(f.succeeds("rollout status fleet/NAME")).To(ContainSubstring("has rolled out: 2 of 2 clusters updated"))
	f.succeeds("upgrade fleet/NAME --kubelet v1.37.1")
	f.Expect(f.spec().AbortedRevision).To(BeEmpty(), "who asks for it again wants it")
}

func TestARolloutOfAFleetIsRetried(t *testing.T) {
	f := newFleetEnv(t)
	f.fails(4, "the hub has not observed its current template yet", "rollout retry fleet/NAME")
	f.settle()
	f.fails(4, "no cluster has failed with revision", "rollout retry fleet/NAME")
	f.Expect(f.spec().RetriedAt).To(BeNil())
	f.succeeds("upgrade fleet/NAME --kubelet v1.37.1")
	f.reconcile()
	f.report(f.clusters[0], true)
	f.reconcile()
	f.succeeds("rollout abort fleet/NAME --rollback failed")
	f.reconcile()
	f.report(f.clusters[0], false)
	f.reconcile()
	r := f.hollow("fleet status NAME")
	f.Expect(r.out).To(MatchRegexp(f.clusters[0].Name+` +1 +canary +RolledBack .*no progress`), "why it failed is known still")

	f.Expect(f.succeeds("rollout retry fleet/NAME --dry-run")).To(ContainSubstring("(dry run)"))
	f.Expect(f.spec().RetriedAt).To(BeNil())
	f.Expect(f.succeeds("rollout retry machinefleet NAME")).To(ContainSubstring("starts again in 1 cluster"))
	first := f.spec().RetriedAt
	f.Expect(f.spec().AbortedRevision).To(BeEmpty())
	f.Expect(f.succeeds("rollout retry machinefleet NAME")).To(ContainSubstring("starts again"))
	f.Expect(f.spec().RetriedAt.After(first.Time)).To(BeTrue(), "a second retry within a second is another one")
	f.settle()
	f.Expect(f.succeeds("rollout status fleet/NAME")).To(ContainSubstring("has rolled out: 2 of 2 clusters updated"))
}
