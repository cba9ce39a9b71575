package machinedeployment

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/witness"
)

// What a set's controller does after the Machines were read is not among them, so that it counts as not yet seen.
func TestASetIsSeenOnlyIfItWasBeforeItsMachinesWereRead(t *testing.T) {
	f := newFixture(t, 2, nil)
	f.reconcile()
	sets := f.list()
	f.Expect(sets).To(HaveLen(1))
	worked := witness.NewSets(f.clock)
	reader := interceptor.NewClient(f.direct, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, machines := list.(*v1alpha1.MachineList); machines {
				defer worked.Done(&sets[0])
			}
			return c.List(ctx, list, options...)
		},
	})
	logic, err := New(Deps{Client: f.direct, Live: f.direct, Recorder: events.NewFakeRecorder(10), Agents: f.agents, Sets: worked, Clock: f.clock})
	f.Expect(err).NotTo(HaveOccurred())
	unseen := func() bool {
		deployment := f.refresh()
		around, err := look(t.Context(), reader, deployment)
		f.Expect(err).NotTo(HaveOccurred())
		s, err := logic.observe(t.Context(), reader, deployment, around, time.Now())
		f.Expect(err).NotTo(HaveOccurred())
		return s.input().New.Unseen
	}
	f.Expect(unseen()).To(BeTrue(), "its controller worked on it while the machines were read")
	f.Expect(unseen()).To(BeFalse(), "now it had done so before")
}
