package fairqueue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

type workQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func makeQueue(workers int) workQueue { return NewQueue(workers)("", reconciler.Retries()) }

// Claim: A namespace of slow objects leaves the others a worker. Broken: one namespace may have all workers.
func TestOneNamespaceLeavesAWorkerToTheOthers(t *testing.T) {
	const workers = 4
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	quiet, filled := make(chan reconcile.Request, 1), make(chan struct{})
	slow := reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		if request.Namespace == "quiet" {
			quiet <- request
			return reconcile.Result{}, nil
		}
		<-ctx.Done()
		return reconcile.Result{}, nil
	})
	var queue workQueue
	events := source.Func(func(_ context.Context, q workQueue) error {
		queue = q
		for i := range 300 {
			q.Add(reconciler.Request("noisy", fmt.Sprint(i)))
		}
		close(filled)
		return nil
	})
	c, err := controller.NewUnmanaged("fair", controller.Options{
		Reconciler: slow, MaxConcurrentReconciles: workers, RateLimiter: reconciler.Retries(),
		NewQueue: NewQueue(workers),
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Watch(events)).To(Succeed())
	ended := make(chan error)
	go func() { ended <- c.Start(ctx) }()
	g.Eventually(filled).Should(BeClosed())
	g.Eventually(queue.Len).Should(BeNumerically("<=", 300-workers+1), "the workers have started")
	queue.Add(reconciler.Request("quiet", "workers"))
	g.Eventually(quiet).Should(Receive(Equal(reconciler.Request("quiet", "workers"))))
	cancel()
	g.Eventually(ended).Should(Receive(BeNil()), "what waits does not hold the end of the hub up")
}

// model is what a queue of requests promises.
type model struct {
	t       *rapid.T
	queue   workQueue
	workers int
	// waiting are requests that have to come, working those that a worker has, and again those that have to come after that.
	waiting map[reconcile.Request]bool
	working []reconcile.Request
	again   map[reconcile.Request]bool
	// passed counts, for each namespace that waits and has no worker, what others got since.
	passed map[string]map[string]int
}

func (m *model) busy(namespace string) int {
	count := 0
	for _, request := range m.working {
		if request.Namespace == namespace {
			count++
		}
	}
	return count
}

// open reports whether there is a request that may be handed out.
func (m *model) open() bool {
	if len(m.working) == m.workers {
		return false
	}
	for request := range m.waiting {
		if m.busy(request.Namespace) < max(m.workers-1, 1) {
			return true
		}
	}
	return false
}

func (m *model) add(request reconcile.Request) {
	m.queue.Add(request)
	if slices.Contains(m.working, request) {
		m.again[request] = true
		return
	}
	m.wait(request)
}

func (m *model) wait(request reconcile.Request) {
	m.waiting[request] = true
	if m.passed[request.Namespace] == nil {
		m.passed[request.Namespace] = map[string]int{}
	}
}

func (m *model) get() {
	request, shutdown := m.queue.Get()
	if shutdown || !m.waiting[request] || slices.Contains(m.working, request) {
		m.t.Fatalf("handed out %s (shutdown %t), while %v wait and %v are worked on", request, shutdown, m.waiting, m.working)
	}
	if m.busy(request.Namespace) >= max(m.workers-1, 1) {
		m.t.Fatalf("namespace %s got more than its share of %d workers: %v", request.Namespace, m.workers, m.working)
	}
	for namespace, others := range m.passed {
		if namespace == request.Namespace || m.busy(namespace) > 0 {
			continue
		}
		if others[request.Namespace]++; others[request.Namespace] > 1 {
			m.t.Fatalf("namespace %s got a second worker before %s got its first", request.Namespace, namespace)
		}
	}
	delete(m.passed, request.Namespace)
	delete(m.waiting, request)
	m.working = append(m.working, request)
	m.rewait(request.Namespace)
}

// rewait starts counting again for what is left of namespace.
func (m *model) rewait(namespace string) {
	for request := range m.waiting {
		if request.Namespace == namespace {
			m.passed[namespace] = map[string]int{}
		}
	}
}

func (m *model) done(i int) {
	request := m.working[i]
	m.working = slices.Delete(m.working, i, i+1)
	m.queue.Done(request)
	if m.again[request] {
		delete(m.again, request)
		m.wait(request)
	}
	if m.busy(request.Namespace) == 0 {
		m.rewait(request.Namespace)
	}
}

// Claim: No request is lost or handled twice at a time, and namespaces take turns. Broken: the namespace with the fewest workers is not the next; its share has no bound.
func TestTheQueueIsFairInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 5).Draw(t, "workers")
		m := &model{
			t: t, queue: makeQueue(workers), workers: workers,
			waiting: map[reconcile.Request]bool{}, again: map[reconcile.Request]bool{}, passed: map[string]map[string]int{},
		}
		defer m.queue.ShutDown()
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				namespace := rapid.SampledFrom([]string{"c1", "c2", "c2", "c2", "c3", ""}).Draw(t, "namespace")
				m.add(reconciler.Request(namespace, rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "name")))
			},
			"get": func(t *rapid.T) {
				if !m.open() {
					t.Skip("nothing may be handed out")
				}
				m.get()
			},
			"done": func(t *rapid.T) {
				if len(m.working) == 0 {
					t.Skip("nothing is worked on")
				}
				m.done(rapid.IntRange(0, len(m.working)-1).Draw(t, "which"))
			},
			"": func(t *rapid.T) {
				if m.queue.Len() != len(m.waiting) {
					t.Fatalf("%d requests wait, not %d", m.queue.Len(), len(m.waiting))
				}
			},
		})
		for len(m.waiting)+len(m.working) > 0 {
			for m.open() {
				m.get()
			}
			m.done(0)
		}
	})
}

// Claim: Each addition is answered by work that starts after it. Broken: an end of work does not give the worker back.
func TestWorkersAndSourcesAtOnce(t *testing.T) {
	g := NewWithT(t)
	queue := makeQueue(4)
	var mu sync.Mutex
	added, worked, working := map[reconcile.Request]int{}, map[reconcile.Request]int{}, map[reconcile.Request]bool{}
	var workers, sources sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for {
				request, shutdown := queue.Get()
				if shutdown {
					return
				}
				mu.Lock()
				if working[request] {
					t.Errorf("%s is worked on twice at a time", request)
				}
				working[request], worked[request] = true, added[request]
				mu.Unlock()
				mu.Lock()
				working[request] = false
				mu.Unlock()
				queue.Done(request)
			}
		})
	}
	for i := range 8 {
		sources.Go(func() {
			for j := range 2000 {
				request := reconciler.Request(fmt.Sprint("c", i%3), fmt.Sprint(j%7))
				mu.Lock()
				added[request]++
				mu.Unlock()
				if j%5 == 0 {
					queue.AddAfter(request, time.Millisecond)
				} else {
					queue.Add(request)
				}
			}
		})
	}
	sources.Wait()
	g.Eventually(func() bool {
		mu.Lock()
		defer mu.Unlock()
		for request := range added {
			if worked[request] != added[request] {
				return false
			}
		}
		return true
	}, 10*time.Second).Should(BeTrue(), "each addition is answered")
	queue.ShutDownWithDrain()
	workers.Wait()
}

func TestARequestComesAfterItsDelayAndItsBackoff(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakeClock(time.Now())
	queue := newQueue(2, clock)("", reconciler.Retries())
	defer queue.ShutDown()
	queue.AddAfter(reconciler.Request("c1", "later"), time.Minute)
	queue.AddRateLimited(reconciler.Request("c1", "failed"))
	g.Expect(queue.NumRequeues(reconciler.Request("c1", "failed"))).To(Equal(1))
	g.Consistently(queue.Len, 20*time.Millisecond).Should(BeZero())
	step := func(by time.Duration) string {
		g.Eventually(clock.HasWaiters).Should(BeTrue())
		clock.Step(by)
		g.Eventually(queue.Len).Should(Equal(1))
		request, _ := queue.Get()
		queue.Done(request)
		queue.Forget(request)
		return request.Name
	}
	g.Expect(step(reconciler.FirstRetry)).To(Equal("failed"))
	g.Expect(step(time.Minute)).To(Equal("later"))
	g.Expect(queue.NumRequeues(reconciler.Request("c1", "failed"))).To(BeZero())
}

func TestAtTheEndWhatWaitsIsDroppedOrDrained(t *testing.T) {
	g := NewWithT(t)
	dropped := makeQueue(1)
	for i := range 5 {
		dropped.Add(reconciler.Request("c1", fmt.Sprint(i)))
	}
	request, _ := dropped.Get()
	dropped.Add(request)
	dropped.ShutDown()
	dropped.Done(request)
	_, shutdown := dropped.Get()
	g.Expect(shutdown).To(BeTrue(), "nothing is handed out after the end")

	drained := makeQueue(2)
	for i := range 5 {
		drained.Add(reconciler.Request("c1", fmt.Sprint(i)))
	}
	request, _ = drained.Get()
	ended := make(chan struct{})
	go func() {
		drained.ShutDownWithDrain()
		close(ended)
	}()
	g.Eventually(drained.ShuttingDown).Should(BeTrue())
	for range 4 {
		next, shutdown := drained.Get()
		g.Expect(shutdown).To(BeFalse(), "all workers drain a single namespace")
		drained.Done(next)
	}
	g.Consistently(ended, 20*time.Millisecond).ShouldNot(BeClosed())
	drained.Done(request)
	g.Eventually(ended).Should(BeClosed())
}
