package machineset

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// beforeDeletion is a client that calls change with the first Machine that it is asked to delete, before it deletes it.
func beforeDeletion(change func(name string)) *interceptor.Funcs {
	done := false
	return &interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
		if _, ok := object.(*v1alpha1.Machine); ok && !done {
			done = true
			change(object.GetName())
		}
		return c.Delete(ctx, object, options...)
	}}
}

// expectDecidesAgain wants the set to decide again soon, and to tell of no failure.
func (f *env) expectDecidesAgain() {
	f.T.Helper()
	f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", time.Second)))
	f.Expect(f.ReadCondition(f.set, v1alpha1.ReplicaFailureCondition).Status).To(Equal(metav1.ConditionFalse))
	f.Expect(f.Events()).NotTo(ContainElement(HavePrefix("Warning")))
}

// Edge case: A Ready Machine was deleted on an old version. Also: TestADeletionIsTriedAgainSoonWhileAStatusIsWrittenOverAndOver; hub/internal/machinedeployment TestAMachineThatCouldNotBeUpdatedInPlaceAndHasChangedSinceIsNotReplaced, TestAMachineThatHasBecomeReadySinceItWasChosenKeepsItsPlace.
func TestAMachineThatChangedSinceItWasChosenIsNotDeleted(t *testing.T) {
	t.Run("by a scale-down", func(t *testing.T) {
		f := newEnv(t, 3, nil)
		f.ExpectReconciled(f.set)
		f.ready()
		f.scale(2)
		var chosen string
		f.Runner = f.another(beforeDeletion(func(name string) {
			chosen = name
			f.annotate(name, v1alpha1.DeletionPriorityAnnotation, "200") // Its user wants another one to go.
		}))
		f.expectDecidesAgain()
		f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(3))
		f.pass(expectationTTL)
		f.ExpectReconciled(f.set)
		f.Expect(active(f.Machines(f.set.Namespace))).To(And(HaveLen(2), ContainElement(chosen)))
	})
	t.Run("for a replacement", func(t *testing.T) {
		f := newEnv(t, 3, nil)
		f.connect()
		f.ExpectReconciled(f.set)
		f.ready()
		f.fail(active(f.Machines(f.set.Namespace))[0], v1alpha1.ErrorHealthTimeout)
		f.Events()
		f.Runner = f.another(beforeDeletion(func(name string) {
			machine := f.machine(name) // Its Node is Ready again after all.
			machine.Status.ErrorReason, machine.Status.ErrorMessage, machine.Status.FailureMessage = "", "", ""
			f.MarkReady(machine, true, f.Clock.Now())
		}))
		f.expectDecidesAgain()
		f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(3))
		f.pass(expectationTTL)
		f.ExpectReconciled(f.set)
		f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(3))
	})
	t.Run("because an admission webhook took its labels", func(t *testing.T) {
		f := newEnv(t, 1, nil)
		funcs := beforeDeletion(func(name string) {
			machine := f.machine(name)
			machine.Labels["app"] = "x"
			f.ExpectApplied(machine)
		})
		funcs.Create = func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if _, ok := object.(*v1alpha1.Machine); ok {
				object.SetLabels(map[string]string{"app": "changed-by-a-webhook"})
			}
			return c.Create(ctx, object, options...)
		}
		f.Runner = f.another(funcs)
		f.ExpectReconciled(f.set)
		f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(1), "it matches the selector by now")
	})
}

// The agent may write the status of a Machine just before each deletion of another one: the retry is not held up by that.
func TestADeletionIsTriedAgainSoonWhileAStatusIsWrittenOverAndOver(t *testing.T) {
	f := newEnv(t, 20, nil)
	f.ExpectReconciled(f.set)
	f.ready()
	f.scale(0)
	writes := 0
	f.Runner = f.another(&interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
		if _, ok := object.(*v1alpha1.Machine); ok && writes < 10 {
			writes++
			f.status(object.GetName(), func(status *v1alpha1.MachineStatus) { status.ObservedGeneration += int64(writes) })
		}
		return c.Delete(ctx, object, options...)
	}})
	f.expectDecidesAgain()
	f.Expect(active(f.Machines(f.set.Namespace))).NotTo(HaveLen(20), "a conflict holds up no other deletion")
	f.ExpectReconciled(f.set)
	f.Expect(active(f.Machines(f.set.Namespace))).To(BeEmpty())
}
