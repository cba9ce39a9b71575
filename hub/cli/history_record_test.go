package cli_test

import (
	"testing"

	. "github.com/onsi/gomega"
)

// What failed, why, and what rolled it back can be read after the rollout is over.
func TestHistoryShowsWhatBecameOfARollout(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	f.succeeds("upgrade fleet/NAME --kubelet v1.37.1")
	f.reconcile()
	f.report(f.clusters[0], true)
	f.reconcile()
	f.succeeds("rollout abort machinefleet NAME --rollback all")
	f.reconcile()
	for range 2 {
		f.report(f.clusters[0], false)
		f.reconcile()
	}
	shown := f.hollow("fleet status NAME")
	f.Expect(shown.out).To(MatchRegexp(`RollingBack: .*spec.abortedRevision`))
	f.succeeds("rollout undo fleet/NAME")
	f.reconcile()

	history := f.succeeds("rollout history machinefleet NAME --revision 2")
	f.Expect(history).To(And(MatchRegexp(f.clusters[0].Name+` +canary .*RolledBack.*no progress`), ContainSubstring("Superseded"), ContainSubstring("kubelet: v1.37.1")))
	f.Expect(history).NotTo(ContainSubstring(f.clusters[1].Name), "it was not started there")
	f.Expect(f.succeeds("rollout history machinefleet NAME --revision 1")).To(MatchRegexp(f.clusters[1].Name + ` .*Succeeded`))
}
