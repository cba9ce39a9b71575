package cli_test

import (
	"testing"

	. "github.com/onsi/gomega"
)

// Each undo goes one step further back, and the last one says that there is no further step: none goes forward again.
func TestUndoAfterUndoGoesFurtherBack(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	for _, kubelet := range []string{"v1.37.1", "v1.37.2"} {
		f.succeeds("upgrade fleet/NAME --kubelet " + kubelet)
		f.settle()
	}
	for _, kubelet := range []string{"v1.37.1", "v1.36.2"} {
		f.succeeds("rollout undo fleet/NAME --allow-downgrade")
		f.Expect(f.kubelet()).To(Equal(kubelet))
		f.settle()
	}
	f.fails(3, "has no earlier revision", "rollout undo fleet/NAME --allow-downgrade")
	f.Expect(f.kubelet()).To(Equal("v1.36.2"))
}

// A revision that was aborted is none to go back to from a later one.
func TestUndoGoesPastARevisionThatWasAborted(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	f.succeeds("upgrade fleet/NAME --kubelet v1.37.1")
	f.reconcile()
	f.succeeds("rollout abort machinefleet NAME")
	f.reconcile()
	f.succeeds("upgrade fleet/NAME --kubelet v1.37.2")
	f.reconcile()
	f.succeeds("rollout undo fleet/NAME --allow-downgrade")
	f.Expect(f.kubelet()).To(Equal("v1.36.2"))
}
