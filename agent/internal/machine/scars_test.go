package machine

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// TestScars has failures of other machine controllers; docs/edge-cases.md lists all of them.
func TestScars(t *testing.T) {
	t.Run("MCM #81–#88, #718, #346: should not fail a pending machine right after a thaw", func(t *testing.T) {
		b := newBed(t)
		machine := b.create("pending-thaw")
		b.clock.SetTime(machine.CreationTimestamp.Time)
		b.reconcile(machine)
		b.clock.Step(10 * time.Hour)
		b.frozenFor = 10*time.Hour - time.Minute
		b.Expect(b.reconcile(machine).RequeueAfter).To(BeNumerically("<=", 19*time.Minute))
		b.Expect(machine.Status.ErrorReason).To(BeEmpty())
		b.clock.Step(19 * time.Minute)
		b.reconcile(machine)
		b.Expect(machine.Status.ErrorReason).To(Equal(v1alpha1.ErrorCreationTimeout), "the time that was not frozen counts")
	})
}
