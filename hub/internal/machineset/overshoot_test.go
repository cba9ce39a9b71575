package machineset

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// intrude makes Machines of the set as no hub does.
func (f *env) intrude(count int) {
	f.T.Helper()
	for range count {
		f.ExpectApplied(&v1alpha1.Machine{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: f.set.Namespace, GenerateName: "intruder-", Labels: f.set.Spec.Selector.MatchLabels,
				OwnerReferences: []metav1.OwnerReference{ownerReference(f.set)}, Finalizers: []string{v1alpha1.MachineFinalizer},
			},
			Spec: v1alpha1.MachineSpec{ClusterName: f.cluster.Name, MachineTemplateBody: f.set.Spec.Template.Spec},
		})
	}
}

// rest lets the set come to rest, so that its status says how many Machines it has.
func (f *env) rest() {
	f.T.Helper()
	for range 3 {
		f.ExpectReconciled(f.set)
		f.pass(time.Minute)
	}
	f.Expect(f.refresh().Status.Replicas).To(BeEquivalentTo(*f.set.Spec.Replicas))
	f.Events()
}

// overshoots expects the set to be frozen for that, or not.
func (f *env) overshoots(want bool) {
	f.T.Helper()
	frozen := f.ReadCondition(f.set, v1alpha1.FrozenCondition)
	if !want {
		f.Expect(frozen.Status).To(Equal(metav1.ConditionFalse), frozen.Message)
		f.Expect(f.set.Labels).NotTo(HaveKey(v1alpha1.FrozenLabel))
		return
	}
	f.Expect(frozen.Status).To(Equal(metav1.ConditionTrue))
	f.Expect(frozen.Reason).To(Equal(v1alpha1.ReasonOvershoot))
	f.Expect(f.set.Labels).To(HaveKeyWithValue(v1alpha1.FrozenLabel, v1alpha1.ReasonOvershoot))
}

func aSurplusFreezesAndThawsByItself(t *testing.T) {
	f := newEnv(t, 3, nil)
	f.rest()
	f.intrude(2)
	f.ExpectReconciled(f.set)
	f.overshoots(true)
	f.Expect(f.Events()).To(ConsistOf(And(HavePrefix("Warning Overshoot"), ContainSubstring("has 5 machines"))))
	f.Runner = f.another(nil) // A restart forgets nothing.
	for range 3 {
		f.pass(time.Minute)
		f.ExpectReconciled(f.set)
	}
	f.overshoots(true)
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(5), "frozen means frozen")

	intruder := f.Machines(f.set.Namespace)[0]
	f.ExpectDeleted(&intruder)
	f.ExpectReconciled(f.set)
	f.overshoots(false)
	f.Expect(f.Events()).To(ContainElement(HavePrefix("Normal OvershootEnded")))
	f.settle()
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(3), "the one that was left over went in a scale-down")
}

// settle lets the set come to rest, and Machines go.
func (f *env) settle() {
	f.T.Helper()
	for range 3 {
		f.ExpectReconciled(f.set)
		f.FinishDeletions(f.set.Namespace)
		f.pass(time.Minute)
	}
}

func TestAFrozenSurplusMakesNoMachinesEither(t *testing.T) {
	f := newEnv(t, 3, nil)
	f.rest()
	f.intrude(4)
	f.ExpectReconciled(f.set)
	f.scale(1)
	f.ExpectReconciled(f.set)
	f.overshoots(true)
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(7), "not even a lower number deletes")
	f.scale(9)
	f.ExpectReconciled(f.set)
	f.overshoots(false)
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(9), "what is asked for now is more than there is")
}

// What the set has made itself and the cache shows late, while nothing may be deleted, is no overshoot afterwards.
func TestWhatTheCacheShowsLateIsNoOvershoot(t *testing.T) {
	known := map[string]bool{}
	behind := false
	f := newEnv(t, 3, &interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		err := c.List(ctx, list, options...)
		if machines, ok := list.(*v1alpha1.MachineList); ok && behind {
			machines.Items = slices.DeleteFunc(machines.Items, func(machine v1alpha1.Machine) bool { return !known[machine.Name] })
		}
		return err
	}})
	f.rest()
	for _, machine := range f.Machines(f.set.Namespace) {
		known[machine.Name] = true
	}
	f.scale(9)
	f.ExpectReconciled(f.set)
	behind = true
	f.ExpectReconciled(f.set)
	f.update(func(set *v1alpha1.MachineSet) {
		set.Annotations = map[string]string{v1alpha1.FreezeAnnotation: "an experiment"}
	})
	f.scale(1)
	f.ExpectReconciled(f.set)
	behind = false
	f.ExpectReconciled(f.set)
	f.update(func(set *v1alpha1.MachineSet) { set.Annotations = nil })
	f.ExpectReconciled(f.set)
	f.overshoots(false)
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(1))
}

func TestAScaleDownIsNoOvershoot(t *testing.T) {
	f := newEnv(t, 12, nil)
	f.ExpectReconciled(f.set) // Its status does not say yet that it has made them.
	f.scale(1)
	f.ExpectReconciled(f.set)
	f.overshoots(false)
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(1))

	f.settle()
	f.scale(12)
	f.settle()
	f.silence()
	f.scale(1)
	f.ExpectReconciled(f.set)
	f.ExpectReconciled(f.set)
	f.Expect(f.ReadCondition(f.set, v1alpha1.FrozenCondition).Reason).To(Equal(v1alpha1.ReasonAgentSilent))
	f.speak()
	f.ExpectReconciled(f.set)
	f.overshoots(false)
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(1), "what was ordered amid a freeze is done after it")
}

// speak ends silence.
func (f *env) speak() {
	f.T.Helper()
	f.ExpectConditionApplied(f.cluster, v1alpha1.FrozenCondition, metav1.ConditionFalse, v1alpha1.ReasonNotFrozen)
}

func aSurplusThatCameWhileNobodyLookedFreezes(t *testing.T) {
	tests := map[string]func(*env){
		"the hub was away":       func(f *env) { f.Runner = f.another(nil) },
		"the cluster was frozen": func(f *env) { f.silence(); f.ExpectReconciled(f.set); f.speak() },
		"the status was not written": func(f *env) {
			next := f.Runner
			f.Runner = f.another(&interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				return errors.New("refused")
			}})
			for range 2 {
				_, err := f.Reconcile(f.set)
				f.Expect(err).To(HaveOccurred())
			}
			f.Runner = next
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 3, nil)
			f.rest()
			f.intrude(3)
			test(f)
			f.ExpectReconciled(f.set)
			f.overshoots(true)
			f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(6))
		})
	}
}

func TestAUserMayLeaveASurplusToTheScaleDown(t *testing.T) {
	f := newEnv(t, 3, nil)
	f.rest()
	f.intrude(5)
	f.ExpectReconciled(f.set)
	f.overshoots(true)
	f.update(func(set *v1alpha1.MachineSet) {
		set.Annotations = map[string]string{v1alpha1.AllowOvershootAnnotation: "true"}
	})
	f.ExpectReconciled(f.set)
	f.overshoots(false)
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(3))
}

func TestASurplusAndASilentAgentAreBothTold(t *testing.T) {
	f := newEnv(t, 3, nil)
	f.rest()
	f.intrude(2)
	f.silence()
	f.ExpectReconciled(f.set)
	f.overshoots(true)
	f.Expect(f.ReadCondition(f.set, v1alpha1.FrozenCondition).Message).To(And(ContainSubstring("5 machines"), ContainSubstring("said by the test")))
}

// A selector that matches Machines of others must not freeze the set that adopts some of them.
func TestAdoptionIsNoOvershoot(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.rest()
	f.intrude(4)
	for _, machine := range f.Machines(f.set.Namespace) {
		machine.OwnerReferences = nil
		f.ExpectApplied(&machine)
	}
	for range 6 {
		f.ExpectReconciled(f.set)
		f.FinishDeletions(f.set.Namespace)
	}
	f.overshoots(false)
}

// Events wake a set for each Machine that comes. The period is for what they miss.
func TestEverySetIsReconciledEachSafetyPeriod(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.rest()
	logic, err := New(Deps{
		Client: f.Client, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock, SafetyPeriod: 3 * time.Minute,
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(f.Client, f.Client, logic)
	f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(Equal(3*time.Minute), "at rest")
	f.intrude(4)
	f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(BeNumerically("<=", 3*time.Minute))
	f.overshoots(true)
	f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(Equal(3*time.Minute), "frozen")
}
