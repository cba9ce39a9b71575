package reconciler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

// counting is a logic that reports a number of replicas.
type counting struct {
	replicas int32
	next     reconciler.Next
	err      error
	before   func(*v1alpha1.MachineSet)
}

func (l *counting) Reconcile(_ context.Context, set *v1alpha1.MachineSet) (reconciler.Next, error) {
	if l.before != nil {
		l.before(set)
	}
	set.Status.Replicas = l.replicas
	return l.next, l.err
}

func (l *counting) Status(set *v1alpha1.MachineSet) any { return &set.Status }

// env is one MachineSet, a client that counts status writes, and a runner over a logic.
type env struct {
	set    *v1alpha1.MachineSet
	writes int
	logic  *counting
	runner reconcile.Reconciler
}

func newEnv(t *testing.T) *env {
	t.Helper()
	g := NewWithT(t)
	ctx := context.Background()
	labels := map[string]string{"a": "b"}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "runner-"}}
	g.Expect(testenv.Server().Client.Create(ctx, namespace)).To(Succeed())
	f := &env{logic: &counting{}, set: &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "set"},
		Spec: v1alpha1.MachineSetSpec{
			ClusterName: namespace.Name, Selector: v1alpha1.MachineSelector{MatchLabels: labels},
			Template: v1alpha1.MachineTemplate{
				Metadata: v1alpha1.TemplateMetadata{Labels: labels},
				Spec:     v1alpha1.MachineTemplateBody{ProviderConfig: v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "c"}}},
			},
		},
	}}
	g.Expect(testenv.Server().Client.Create(ctx, f.set)).To(Succeed())
	watching, err := client.NewWithWatch(testenv.Server().Config, client.Options{Scheme: scheme.New()})
	g.Expect(err).NotTo(HaveOccurred())
	counted := interceptor.NewClient(watching, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			f.writes++
			return c.SubResource(sub).Patch(ctx, object, patch, options...)
		},
	})
	f.runner = reconciler.New[v1alpha1.MachineSet](counted, counted, f.logic)
	return f
}

func (f *env) reconcile() (reconcile.Result, error) {
	return f.runner.Reconcile(context.Background(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.set)})
}

func (f *env) stored(g Gomega) int32 {
	g.Expect(testenv.Server().Client.Get(context.Background(), client.ObjectKeyFromObject(f.set), f.set)).To(Succeed())
	return f.set.Status.Replicas
}

func TestStatusIsWrittenOnceAndOnlyWhenItDiffers(t *testing.T) {
	g, f := NewWithT(t), newEnv(t)
	f.logic.replicas = 3
	for range 3 {
		result, err := f.reconcile()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result).To(BeZero())
	}
	g.Expect(f.writes).To(Equal(1))
	g.Expect(f.stored(g)).To(BeEquivalentTo(3))
}

func TestStatusIsWrittenAlsoAfterAnError(t *testing.T) {
	g, f := NewWithT(t), newEnv(t)
	f.logic.replicas, f.logic.err = 2, errors.New("the world is on fire")
	_, err := f.reconcile()
	g.Expect(err).To(MatchError(f.logic.err))
	g.Expect(f.stored(g)).To(BeEquivalentTo(2))
}

func TestStatusCanBeHeldBack(t *testing.T) {
	g, f := NewWithT(t), newEnv(t)
	f.logic.replicas, f.logic.next = 5, reconciler.Next{After: time.Second, DeferStatus: true}
	result, err := f.reconcile()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.RequeueAfter).To(Equal(time.Second))
	g.Expect(f.writes).To(BeZero())

	f.logic.next.After = 0
	_, err = f.reconcile()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.stored(g)).To(BeEquivalentTo(5), "without a time to come back, holding back would lose it")
}

func TestAStaleStatusIsNotWritten(t *testing.T) {
	g, f := NewWithT(t), newEnv(t)
	f.logic.replicas = 4
	f.logic.before = func(*v1alpha1.MachineSet) {
		other := f.set.DeepCopy()
		other.Status.Replicas = 9
		g.Expect(testenv.Server().Client.Status().Update(context.Background(), other)).To(Succeed())
	}
	result, err := f.reconcile()
	g.Expect(err).NotTo(HaveOccurred(), "a conflict is nothing to tell an operator")
	g.Expect(result.RequeueAfter).To(Equal(time.Second), "it is tried again")
	g.Expect(f.stored(g)).To(BeEquivalentTo(9))
}

func TestAnObjectThatIsGoneIsNoError(t *testing.T) {
	g, f := NewWithT(t), newEnv(t)
	g.Expect(testenv.Server().Client.Delete(context.Background(), f.set)).To(Succeed())
	result, err := f.reconcile()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result).To(BeZero())
}

func TestSooner(t *testing.T) {
	g := NewWithT(t)
	next := reconciler.Next{}
	g.Expect(next.NoLaterThan(0).After).To(BeZero())
	g.Expect(next.NoLaterThan(time.Minute).After).To(Equal(time.Minute))
	g.Expect(next.NoLaterThan(time.Minute).NoLaterThan(time.Second).After).To(Equal(time.Second))
	g.Expect(next.NoLaterThan(time.Second).NoLaterThan(time.Minute).After).To(Equal(time.Second))
}
