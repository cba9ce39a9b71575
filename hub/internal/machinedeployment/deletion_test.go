package machinedeployment

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// changing is a controller that is about to delete a Machine when change is called with it, once.
func (f *env) changing(change func(*v1alpha1.Machine)) *Controller {
	f.T.Helper()
	done := false
	c := interceptor.NewClient(f.Client, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if _, ok := object.(*v1alpha1.Machine); ok && !done {
				done = true
				machine := &v1alpha1.Machine{}
				f.Expect(c.Get(ctx, client.ObjectKeyFromObject(object), machine)).To(Succeed())
				change(machine)
			}
			return c.Delete(ctx, object, options...)
		},
	})
	logic, err := New(Deps{Client: c, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Snapshots: f.snapshots, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(c, c, logic)
	return logic
}

func TestAMachineThatCouldNotBeUpdatedInPlaceAndHasChangedSinceIsNotReplaced(t *testing.T) {
	f := inPlace(t, 3, nil)
	before := f.uids()
	f.upgrade("v1.37.0")
	f.rest()
	f.Expect(f.updated(func(*v1alpha1.Machine) string { return v1alpha1.ReasonInPlaceUnsupported })).To(Equal(1))
	reached := false
	f.changing(func(machine *v1alpha1.Machine) {
		reached = true
		for i := range machine.Status.Conditions {
			if machine.Status.Conditions[i].Type == v1alpha1.MachineUpdatedCondition {
				machine.Status.Conditions[i].Status, machine.Status.Conditions[i].Reason = metav1.ConditionTrue, v1alpha1.ReasonUpToDate
			}
		}
		f.ExpectStatusApplied(machine)
	})
	f.Events()
	result, err := f.Runner.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.deployment)})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(reached).To(BeTrue())
	f.Expect(result.RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", outcome.ConflictRetry)))
	f.Expect(f.Events()).NotTo(ContainElement(Or(HavePrefix("Warning"), ContainSubstring("Deleted Machine"))))
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ReplicaFailureCondition).Status).To(Equal(metav1.ConditionFalse))
	f.roll(fine, func() {})
	f.Expect(f.uids()).To(Equal(before), "its provider could update it after all")
}

func TestAMachineThatHasBecomeReadySinceItWasChosenKeepsItsPlace(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.rest()
	machines := f.Machines(f.cluster.Name)
	f.MarkReady(&machines[0], false, f.Clock.Now())
	logic := f.changing(func(machine *v1alpha1.Machine) { f.MarkReady(machine, true, f.Clock.Now()) })
	s, _, err := logic.observeLive(t.Context(), f.refresh(), &scope{}, nil, f.Clock.Now())
	f.Expect(err).NotTo(HaveOccurred())
	f.Events()
	remove := func(s *scope) error {
		for _, machine := range s.machines[s.sets[0].UID].facts {
			if machine.Name == machines[0].Name {
				return logic.deleteWithPlace(t.Context(), s, decision{Plan: plan.Plan{Remove: &plan.Pick{Set: s.sets[0].Name, Machine: machine}}})
			}
		}
		return nil
	}
	f.Expect(remove(s)).To(Satisfy(func(err error) bool { return err != nil }))
	f.Expect(f.Events()).To(BeEmpty())
	f.rest()
	f.Expect(f.Machines(f.cluster.Name)).To(HaveLen(2))
	f.Expect(f.Machines(f.cluster.Name)).To(HaveEach(HaveField("DeletionTimestamp", BeNil())))
	f.Expect(f.list()[0].Annotations).NotTo(HaveKey(v1alpha1.TransferAnnotation), "its set is unlocked with as many replicas as before")
	f.Expect(f.replicasOf(f.list())).To(Equal([]int32{2}))
	wait, refused := logic.refused.Wait(f.deployment.UID, f.Clock.Now())
	f.Expect(wait).To(BeZero(), "a conflict puts the next attempt off no further")
	f.Expect(refused).NotTo(HaveOccurred())
}
