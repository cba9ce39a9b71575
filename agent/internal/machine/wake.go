package machine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// Waker is the source of what wakes a Machine beside the API servers: its driver, and the thaw.
type Waker struct {
	namespace string
	reader    client.Reader
	freeze    freeze.Checker
	changes   <-chan struct{}

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// NewWaker returns a Waker for the Machines of namespace. changes receives when freeze may have changed.
func NewWaker(namespace string, reader client.Reader, freeze freeze.Checker, changes <-chan struct{}) *Waker {
	return &Waker{namespace: namespace, reader: reader, freeze: freeze, changes: changes}
}

// Wake asks for a look at a Machine. Before the controller runs it does nothing: every Machine is looked at then.
func (w *Waker) Wake(machine string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue != nil {
		w.queue.Add(w.RequestFor(machine))
	}
}

// Start implements source.Source.
func (w *Waker) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	w.queue = queue
	w.mu.Unlock()
	go freeze.OnThaw(ctx, w.freeze, w.changes, w.wakeAll)
	return nil
}

func (w *Waker) wakeAll(ctx context.Context) {
	machines := &v1alpha1.MachineList{}
	if err := w.reader.List(ctx, machines, client.InNamespace(w.namespace), client.UnsafeDisableDeepCopy); err != nil {
		klog.FromContext(ctx).Error(err, "Waking the machines after the freeze failed")
		return
	}
	for i := range machines.Items {
		w.Wake(machines.Items[i].Name)
	}
}

// RequestFor asks for a look at a Machine, by name.
func (w *Waker) RequestFor(machine string) reconcile.Request {
	return reconciler.Request(w.namespace, machine)
}

const (
	// answerTries bounds how often one Machine is reconciled for one thaw: one that cannot be reported must not keep its
	// whole cluster frozen. answerRetry is how soon that is tried again.
	answerTries = 5
	answerRetry = time.Second
)

// PreThawSync has every Machine looked at once more before a thaw, so that the hub knows how each of them is when it hears
// that the agent acts again: the hub acts then, too, on what was said before the freeze where nothing newer is said.
type PreThawSync struct {
	waker *Waker
	clock clock.PassiveClock

	mu sync.Mutex
	// freeze is the one for which Machines were called last, open are those that have not answered.
	freeze uint64
	open   map[string]*answer
}

// answer is what a Machine still owes.
type answer struct {
	tries   int
	retryAt time.Time
}

// NewPreThawSync returns a PreThawSync of the Machines that waker wakes.
func NewPreThawSync(waker *Waker, clock clock.PassiveClock) *PreThawSync {
	return &PreThawSync{waker: waker, clock: clock}
}

// Run returns for how many Machines the agent has not yet written the state to the hub since a freeze. The first call for a
// freeze enqueues all Machines; a reconciliation that started before it does not count.
func (r *PreThawSync) Run(ctx context.Context, freeze uint64) (left int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.freeze != freeze || r.open == nil {
		machines := &v1alpha1.MachineList{}
		if err := r.waker.reader.List(ctx, machines, client.InNamespace(r.waker.namespace), client.UnsafeDisableDeepCopy); err != nil {
			return 0, fmt.Errorf("listing the machines to report: %w", err)
		}
		r.freeze, r.open = freeze, map[string]*answer{}
		for i := range machines.Items {
			r.open[machines.Items[i].Name] = &answer{}
		}
	}
	now := r.clock.Now()
	for machine, owed := range r.open {
		if !now.Before(owed.retryAt) {
			owed.retryAt = now.Add(answerRetry)
			r.waker.Wake(machine)
		}
	}
	return len(r.open), nil
}

// Wrap returns inner with a check after each result: a success counts for its Machine.
func (r *PreThawSync) Wrap(inner reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		owed := r.owedAnswer(request.Name)
		result, err := inner.Reconcile(ctx, request)
		if owed != nil {
			r.markAnswered(ctx, request.Name, owed, err == nil && result.RequeueAfter != outcome.ConflictRetry)
		}
		return result, err
	})
}

func (r *PreThawSync) owedAnswer(machine string) *answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[machine]
}

func (r *PreThawSync) markAnswered(ctx context.Context, machine string, owed *answer, told bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[machine] != owed {
		return // It was called again meanwhile.
	}
	owed.tries++
	if !told && owed.tries < answerTries {
		return
	}
	if !told {
		klog.FromContext(ctx).Info("A machine could not be reported to the hub before the freeze ended", "tries", owed.tries)
	}
	delete(r.open, machine)
}
