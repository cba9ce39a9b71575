package inventory

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/hubtest"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// TestSourceOfClustersEndsWithItsContext has two sources on one cache, of which one ends.
func TestSourceOfClustersEndsWithItsContext(t *testing.T) {
	g := NewWithT(t)
	shared, err := cache.New(environment.Config, cache.Options{Scheme: scheme.New()})
	g.Expect(err).NotTo(HaveOccurred())
	go func() { _ = shared.Start(t.Context()) }()
	g.Expect(shared.WaitForCacheSync(t.Context())).To(BeTrue())
	listen := func(ctx context.Context) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		g.Expect(clusters(shared).Start(ctx, queue)).To(Succeed())
		return queue
	}
	direct := hubtest.Client(t, environment)
	create := func() *v1alpha1.Cluster {
		cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: hubtest.Name()}}
		hubtest.Create(t, direct, cluster)
		return cluster
	}
	ending, end := context.WithCancel(t.Context())
	ended, lasting := listen(ending), listen(t.Context())
	gone := create()
	g.Eventually(ended.Len).WithTimeout(patience).Should(Equal(1))
	g.Eventually(lasting.Len).WithTimeout(patience).Should(Equal(1))

	end()
	last := -1
	g.Eventually(func() bool { // The handler goes in the background, so one Cluster more may still arrive.
		same := ended.Len() == last
		last = ended.Len()
		create()
		return same
	}).WithPolling(time.Second).WithTimeout(patience).Should(BeTrue(), "the handler stays in the cache")
	g.Eventually(lasting.Len).WithTimeout(patience).Should(BeNumerically(">", 2))
	for lasting.Len() > 0 {
		item, _ := lasting.Get()
		lasting.Done(item)
	}
	g.Expect(direct.Delete(t.Context(), gone)).To(Succeed())
	g.Eventually(lasting.Len).WithTimeout(patience).Should(Equal(1), "a deletion is news too")
}

func TestTogetherEndsAllWithTheFirst(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	failed := errors.New("said by the test")
	waits := func(ctx context.Context) error { <-ctx.Done(); return nil }
	g.Expect(together(ctx, cancel, waits, func(context.Context) error { return failed }, waits)).To(MatchError(failed))
}

func TestWorkThatIsCutShortIsNoError(t *testing.T) {
	g := NewWithT(t)
	failed := errors.New("said by the test")
	ctx, cancel := context.WithCancel(t.Context())
	reconciler := untilEnd(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, failed
	}))
	_, err := reconciler.Reconcile(ctx, reconcile.Request{})
	g.Expect(err).To(MatchError(failed))
	cancel()
	_, err = reconciler.Reconcile(ctx, reconcile.Request{})
	g.Expect(err).NotTo(HaveOccurred())
}

func TestARefusalWaitsForTheNewsThatItsKindGoes(t *testing.T) {
	g := NewWithT(t)
	going, goes := context.WithCancel(t.Context())
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "managedclusters"}, "c1", errors.New("the definition is terminating"))
	reconciler := untilEnd(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		time.AfterFunc(10*time.Millisecond, goes)
		return reconcile.Result{}, forbidden
	}))
	_, err := reconciler.Reconcile(going, reconcile.Request{})
	g.Expect(err).NotTo(HaveOccurred(), "the news came")
	_, err = reconciler.Reconcile(t.Context(), reconcile.Request{})
	g.Expect(err).To(MatchError(forbidden), "no such news: the refusal is real")
}
