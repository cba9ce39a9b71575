package machine

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
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
		w.queue.Add(w.request(machine))
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
		klog.FromContext(ctx).Error(err, "Waking the machines after the thaw failed")
		return
	}
	for i := range machines.Items {
		w.Wake(machines.Items[i].Name)
	}
}

func (w *Waker) request(machine string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: machine}}
}
