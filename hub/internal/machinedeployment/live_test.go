package machinedeployment

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset"
)

// All live reads are under way at once: what a set's controller has done when its set was read may be missing among the
// Machines. Only what was known before counts.
// Claim: What a set did during a read counts as unseen. Broken: the sets are asked after the reads.
func TestASetIsSeenOnlyIfItWasBeforeItsMachinesWereRead(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.ExpectReconciled(f.deployment)
	sets := f.list()
	f.Expect(sets).To(HaveLen(1))
	worked, machinesRead := machineset.NewSets(f.Clock), make(chan struct{})
	live := interceptor.NewClient(f.Client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			switch list := list.(type) {
			case *v1alpha1.MachineList:
				err := c.List(ctx, list, options...)
				worked.Done(&sets[0])
				close(machinesRead)
				return err
			case *v1alpha1.MachineSetList:
				<-machinesRead
				err := c.List(ctx, list, options...)
				list.Items[0].Status.ObservedGeneration = list.Items[0].Generation
				return err
			}
			return c.List(ctx, list, options...)
		},
	})
	logic, err := New(Deps{Client: f.Client, Live: live, Recorder: events.NewFakeRecorder(10), Agents: f.agents, Sets: worked, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	unseen := func() bool {
		machinesRead = make(chan struct{})
		s, _, err := logic.observeLive(t.Context(), f.refresh(), &scope{}, logic.workedGenerations(f.list()), f.Clock.Now())
		f.Expect(err).NotTo(HaveOccurred())
		return s.planInput().New.Unseen
	}
	f.Expect(unseen()).To(BeTrue(), "its controller worked on it while the machines were read")
	f.Expect(unseen()).To(BeFalse(), "now it had done so before")
}

// What the sets are offered is all that there is, and whose it is: a step that moves Machines offers nothing.
// Claim: A step that moves Machines lends its sets nothing. Broken: each step offers what it has read.
func TestTheSetsAreOfferedWhatAStepHasRead(t *testing.T) {
	for name, test := range map[string]struct {
		strategy v1alpha1.MachineDeploymentStrategy
		offers   bool
	}{
		"a rolling update":   {rollingBy("1"), true},
		"an update in place": {v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.InPlace, InPlace: &v1alpha1.InPlaceUpdate{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 2, nil)
			f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Strategy = test.strategy })
			f.rest()
			offered := false
			f.upgrade("v1.36.3")
			f.roll(fine, func() {
				machines, found := f.snapshots.Since(f.deployment.UID, 0, f.Clock.Now())
				if !found {
					return
				}
				offered = true
				owners := map[types.UID]types.UID{}
				for _, machine := range machines {
					owners[machine.UID] = metav1.GetControllerOf(machine).UID
				}
				for _, machine := range f.Machines(f.cluster.Name) {
					if owner, known := owners[machine.UID]; known {
						f.Expect(metav1.GetControllerOf(&machine).UID).To(Equal(owner), "machine %s", machine.Name)
					}
				}
			})
			f.Expect(offered).To(Equal(test.offers))
			f.Expect(f.available()).To(Equal(2))
		})
	}
}
