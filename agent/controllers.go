package agent

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hollowfleet/hollowfleet/agent/internal/csrapprover"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/machine"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// newQueue is the default queue without metrics of its own: with those it wakes up twice a second, as often as all else that an agent does at rest.
func newQueue(_ string, retries workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return priorityqueue.New("", func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = retries })
}

// addMachineController looks at a Machine when it, its MachineClass, its Node or its instance changes, and at the thaw.
func addMachineController(c clusters, monitor *freeze.Monitor, machines *machine.Controller, waker *machine.Waker, preThawSync *machine.PreThawSync) error {
	made, err := controller.New("machine", c.hub, controller.Options{
		Reconciler: guardDecisions(monitor, preThawSync.Wrap(machines.Reconciler())), MaxConcurrentReconciles: workers,
		ReconciliationTimeout: reconcileTimeout, NeedLeaderElection: ptr.To(false), RateLimiter: reconciler.Retries(),
		NewQueue: newQueue, LogConstructor: newLogConstructor(c, "machine", machineLog),
	})
	if err != nil {
		return fmt.Errorf("making the machine controller: %w", err)
	}
	sources := []source.Source{
		source.Kind(c.hub.GetCache(), &v1alpha1.Machine{}, machines.Handler()),
		source.Kind(c.hub.GetCache(), &v1alpha1.MachineClass{}, handler.TypedEnqueueRequestsFromMapFunc(machinesOf(c.hub.GetCache()))),
		source.Kind(c.target.GetCache(), &corev1.Node{}, handler.TypedEnqueueRequestsFromMapFunc(
			func(_ context.Context, n *corev1.Node) []reconcile.Request {
				return []reconcile.Request{waker.RequestFor(n.Name)}
			}), nodeChanged()),
		waker,
	}
	for _, from := range sources {
		if err := made.Watch(from); err != nil {
			return fmt.Errorf("watching for the machine controller: %w", err)
		}
	}
	return nil
}

// guardDecisions lets nothing that a reconcile has seen before a freeze be acted on after it.
func guardDecisions(monitor *freeze.Monitor, inner reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		return inner.Reconcile(monitor.Deciding(ctx), request)
	})
}

// newLogConstructor returns how a controller's log names the object that it works on.
func newLogConstructor(c clusters, name string, object func(log logr.Logger, name klog.ObjectRef) logr.Logger) func(*reconcile.Request) logr.Logger {
	log := c.hub.GetLogger().WithName(name)
	return func(request *reconcile.Request) logr.Logger {
		if request == nil {
			return log
		}
		return object(log, klog.KRef(request.Namespace, request.Name))
	}
}

func machineLog(log logr.Logger, name klog.ObjectRef) logr.Logger {
	return log.WithValues("Machine", name)
}

func requestLog(log logr.Logger, name klog.ObjectRef) logr.Logger {
	return log.WithValues("CertificateSigningRequest", name)
}

// machinesOf returns a function that finds the Machines that use a MachineClass.
func machinesOf(reader cache.Cache) handler.TypedMapFunc[*v1alpha1.MachineClass, reconcile.Request] {
	return func(ctx context.Context, class *v1alpha1.MachineClass) []reconcile.Request {
		machines := &v1alpha1.MachineList{}
		if err := reader.List(ctx, machines, client.InNamespace(class.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			klog.FromContext(ctx).Error(err, "Finding the machines of a class failed", "MachineClass", klog.KObj(class))
			return nil
		}
		var requests []reconcile.Request
		for i := range machines.Items {
			reference := machines.Items[i].Spec.ProviderConfig.ValueRef
			if reference != nil && reference.Name == class.Name {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&machines.Items[i])})
			}
		}
		return requests
	}
}

// nodeChanged drops heartbeats.
func nodeChanged() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
			return !node.OnlyHeartbeat(e.ObjectOld, e.ObjectNew)
		},
	}
}

// addRequestController looks at certificate requests that are neither approved nor denied.
func addRequestController(c clusters, monitor *freeze.Monitor, requests *csrapprover.Controller, thaws <-chan struct{}) error {
	made, err := controller.New("csrapprover", c.hub, controller.Options{
		Reconciler: guardDecisions(monitor, requests), MaxConcurrentReconciles: workers,
		ReconciliationTimeout: reconcileTimeout, NeedLeaderElection: ptr.To(false),
		RateLimiter: reconciler.Retries(), NewQueue: newQueue, LogConstructor: newLogConstructor(c, "csrapprover", requestLog),
	})
	if err != nil {
		return fmt.Errorf("making the approver: %w", err)
	}
	open := predicate.NewTypedPredicateFuncs(func(csr *certificatesv1.CertificateSigningRequest) bool {
		return certrequest.Open(csr) && csrapprover.IsKubelets(csr)
	})
	sources := []source.Source{
		source.Kind(c.target.GetCache(), &certificatesv1.CertificateSigningRequest{},
			&handler.TypedEnqueueRequestForObject[*certificatesv1.CertificateSigningRequest]{}, open),
		source.Func(requests.OnThaw(monitor, thaws)),
	}
	for _, from := range sources {
		if err := made.Watch(from); err != nil {
			return fmt.Errorf("watching for the approver: %w", err)
		}
	}
	return nil
}
