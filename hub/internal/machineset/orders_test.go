package machineset

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// deployment is the one that own has made.
func (f *env) deployment(change func(*v1alpha1.MachineDeployment)) {
	f.T.Helper()
	deployment := &v1alpha1.MachineDeployment{}
	f.Expect(f.Client.Get(f.T.Context(), client.ObjectKey{Namespace: f.set.Namespace, Name: "pool"}, deployment)).To(Succeed())
	change(deployment)
	f.ExpectApplied(deployment)
}

// The order of a set may be older than what its deployment asks for: its controller may not have taken the places off yet.
// Edge case: A paused hub acted on old orders. Also: TestAProcessThatWasStoppedDecidesAnew.
func TestASetMakesNoMoreThanItsDeploymentAllowsNow(t *testing.T) {
	f := newFamily(t, nil)
	for _, name := range []string{"old", "new"} {
		set := &v1alpha1.MachineSet{}
		f.Expect(f.Client.Get(t.Context(), client.ObjectKeyFromObject(f.sets[name]), set)).To(Succeed())
		set.Spec.Replicas = new(int32(6))
		f.ExpectApplied(set)
	}
	surge := intstr.FromInt32(2)
	f.deployment(func(deployment *v1alpha1.MachineDeployment) {
		deployment.Spec.Replicas = new(int32(6))
		deployment.Spec.Strategy.RollingUpdate = &v1alpha1.RollingUpdateBounds{MaxSurge: &surge}
	})
	f.look("new")
	f.Expect(f.of("new")).To(HaveLen(5), "replicas and surge, without the 3 of the other set")
	f.Expect(f.look("old").RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", time.Minute)))
	f.Expect(f.of("old")).To(HaveLen(3))
	f.deployment(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Replicas = new(int32(0)) })
	lost := f.machine(f.of("new")[0])
	f.ExpectDeleted(lost)
	f.FinishDeletions(f.set.Namespace)
	f.look("new")
	f.Expect(f.of("new")).To(HaveLen(4), "none is asked for any more")
}

// A process that was stopped continues in the middle of what it was about.
func TestAProcessThatWasStoppedDecidesAnew(t *testing.T) {
	for name, test := range map[string]struct{ before, order, after int32 }{
		"amid creations": {0, 40, 1}, "amid deletions": {40, 0, 39},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, test.before, nil)
			f.ExpectReconciled(f.set)
			f.scale(test.order)
			var once sync.Once
			var writes atomic.Int32
			stop := func() {
				writes.Add(1)
				once.Do(func() {
					f.scale(test.after) // Taken back while the process is stopped.
					f.pass(6 * time.Second)
				})
			}
			f.Runner = f.another(&interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
					err := c.Create(ctx, object, options...)
					if _, ok := object.(*v1alpha1.Machine); ok {
						stop()
					}
					return err
				},
				Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
					if _, ok := object.(*v1alpha1.Machine); ok {
						stop()
					}
					return c.Delete(ctx, object, options...)
				},
			})
			result := f.ExpectReconciled(f.set)
			f.Expect(result.RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", time.Second)))
			f.Expect(int(writes.Load())).To(BeNumerically("<=", parallelCalls), "what was under way already")
			f.Expect(f.ReadCondition(f.set, v1alpha1.ReplicaFailureCondition).Status).To(Equal(metav1.ConditionFalse))
			for range 3 {
				f.pass(expectationTTL)
				f.ExpectReconciled(f.set)
			}
			f.Expect(len(active(f.Machines(f.set.Namespace)))).To(BeNumerically("<=", int(test.after)))
		})
	}
}

// Edge case: A lost Machine got the old template. Also: hub/internal/machinedeployment/plan "on delete: the set looks before the deployment".
func TestASetOfAnOlderTemplateLeavesWhatItLacksToTheCurrentOne(t *testing.T) {
	for _, strategy := range []v1alpha1.MachineDeploymentStrategy{{Type: v1alpha1.OnDelete}, {Type: v1alpha1.InPlace}} {
		t.Run(string(strategy.Type), func(t *testing.T) {
			f := newEnv(t, 3, nil)
			f.own(nil, nil)
			f.deployment(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Strategy = strategy })
			f.ExpectReconciled(f.set)
			f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(3), "it has the current template")
			f.deployment(func(deployment *v1alpha1.MachineDeployment) {
				deployment.Spec.Template.Spec.Versions.Kubelet = "v1.37.0"
			})
			f.Expect(f.Client.Delete(t.Context(), new(f.Machines(f.set.Namespace)[0]))).To(Succeed())
			for range 3 {
				f.FinishDeletions(f.set.Namespace)
				f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", time.Minute)), "the strategy may change")
				f.pass(time.Minute)
			}
			f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(2))
			f.deployment(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Paused = true })
			f.ExpectReconciled(f.set)
			f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(3), "what a paused rollout lacks is made with the template that it had")
		})
	}
}

// blocked is a client whose lists of the Machines of one namespace wait.
type blocked struct {
	client.Reader
	namespace string
	reached   chan struct{}
	release   chan struct{}
}

func (b *blocked) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	_, machines := list.(*v1alpha1.MachineList)
	// The read that counts the replacements of other sets goes by the deployment's label.
	if machines && asked.Namespace == b.namespace && asked.LabelSelector != nil &&
		asked.LabelSelector.String() == v1alpha1.MachineDeploymentNameLabel+"=pool" {
		close(b.reached)
		<-b.release
	}
	return b.Reader.List(ctx, list, options...)
}

// Edge case: One slow namespace held up all.
func TestASlowClusterHoldsUpNoReplacementInAnother(t *testing.T) {
	slow, other := newFamily(t, nil), newFamily(t, nil)
	live := &blocked{Reader: slow.Client, namespace: slow.set.Namespace, reached: make(chan struct{}), release: make(chan struct{})}
	logic, err := New(Deps{Client: slow.Client, Live: live, Recorder: slow.Recorder, Agents: slow.agents, Clock: slow.Clock})
	slow.Expect(err).NotTo(HaveOccurred())
	runner := reconciler.New(slow.Client, slow.Client, logic)
	for _, f := range []*family{slow, other} {
		f.fail(f.first["old"][0], v1alpha1.ErrorHealthTimeout)
	}
	request := func(f *family) reconcile.Request {
		return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: f.set.Namespace, Name: "old"}}
	}
	done := make(chan error, 1)
	go func() {
		_, err := runner.Reconcile(t.Context(), request(slow))
		done <- err
	}()
	slow.Eventually(live.reached).WithTimeout(time.Minute).Should(BeClosed())
	finished := make(chan error, 1)
	go func() {
		_, err := runner.Reconcile(t.Context(), request(other))
		finished <- err
	}()
	other.Eventually(finished).WithTimeout(time.Minute).Should(Receive(BeNil()), "it waits for another cluster")
	other.Expect(other.of("old")).To(HaveLen(2))
	close(live.release)
	slow.Eventually(done).WithTimeout(time.Minute).Should(Receive(BeNil()))
	slow.Expect(slow.of("old")).To(HaveLen(2))
}

// The reason of a set's own overshoot is what keeps it frozen until it has few enough Machines.
// Edge case: A frozen set seemed to overshoot.
func TestASetThatItsDeploymentFreezesForAnotherOnesOvershootIsNotTakenForOneItself(t *testing.T) {
	f := newEnv(t, 3, nil)
	f.rest()
	f.own(nil, []metav1.Condition{{
		Type: v1alpha1.FrozenCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonOvershoot, Message: "MachineSet x has 9 machines",
		LastTransitionTime: metav1.Now(),
	}})
	f.ExpectReconciled(f.set)
	frozen := f.ReadCondition(f.set, v1alpha1.FrozenCondition)
	f.Expect(frozen.Status).To(Equal(metav1.ConditionTrue))
	f.Expect(frozen.Reason).To(Equal(v1alpha1.ReasonDeploymentOvershoot))
	f.Expect(about(f.Events(), v1alpha1.ReasonOvershoot)).To(BeEmpty())
	deployment := &v1alpha1.MachineDeployment{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Namespace: f.set.Namespace, Name: "pool"}, deployment)).To(Succeed())
	meta.SetStatusCondition(&deployment.Status.Conditions, metav1.Condition{Type: v1alpha1.FrozenCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotFrozen})
	f.ExpectStatusApplied(deployment)
	f.ExpectReconciled(f.set)
	f.Expect(f.ReadCondition(f.set, v1alpha1.FrozenCondition).Status).To(Equal(metav1.ConditionFalse))
}
