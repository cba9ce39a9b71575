// Package configsource takes the KubeletConfigurations that configSource names into Machines that no MachineDeployment makes.
package configsource

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/configsource/content"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// +kubebuilder:rbac:groups=hollowfleet.io,resources=machines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Controller writes the content into Machines that have none: those that a user has made, those of MachineSets without a
// MachineDeployment, and those whose key or sha256 a user has changed.
type Controller struct {
	client   client.Client
	live     client.Reader
	recorder events.EventRecorder
}

// New returns a Controller. hub reads from the cache, live from the API server.
func New(hub client.Client, live client.Reader, recorder events.EventRecorder) *Controller {
	return &Controller{client: hub, live: live, recorder: recorder}
}

// Setup returns what lets a manager run the controller.
func Setup(live client.Reader, recorder events.EventRecorder) func(ctrl.Manager, controller.Options) error {
	return func(manager ctrl.Manager, options controller.Options) error {
		c := New(manager.GetClient(), live, recorder)
		err := builder.ControllerManagedBy(manager).
			Named("configsource").
			For(&v1alpha1.Machine{}, builder.WithPredicates(predicate.NewPredicateFuncs(isWaiting))).
			Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(c.ofConfigMap)).
			WithOptions(options).
			Complete(c)
		if err != nil {
			return fmt.Errorf("setting the controller of configSource up: %w", err)
		}
		return nil
	}
}

// Reconcile implements reconcile.Reconciler. What a ConfigMap lacks is waited for: its change wakes the Machine.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	machine := &v1alpha1.Machine{}
	if err := c.client.Get(ctx, request.NamespacedName, machine); undecodable.Is(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("getting machine %s: %w", request, err)
	}
	if !isWaiting(machine) {
		return reconcile.Result{}, nil
	}
	found, err := content.Find(ctx, c.live, machine.Namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	source := machine.Spec.ConfigSource
	taken, problem := content.Read(machine.Namespace, found, source)
	if problem != "" {
		reconciler.WarningEvent(v1alpha1.ReasonConfigSourceUnavailable, "TakeContent", "spec.configSource: "+problem).Send(c.recorder, machine)
		return reconcile.Result{}, nil
	}
	before := machine.DeepCopy()
	source.Resolved = &v1alpha1.ResolvedConfigSource{Key: source.Key, Content: taken}
	if err := c.client.Patch(ctx, machine, reconciler.MergeFromWithLock(before)); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("writing the content of spec.configSource into machine %s: %w", request, err)
	}
	return reconcile.Result{}, nil
}

// isWaiting reports whether a Machine lacks the content that it asks for.
func isWaiting(object client.Object) bool {
	machine, ok := object.(*v1alpha1.Machine)
	return ok && machine.NotDecoded() == "" && machine.DeletionTimestamp.IsZero() &&
		machine.Spec.ConfigSource != nil && !machine.Spec.ConfigSource.IsResolved()
}

// ofConfigMap are the Machines that wait for a ConfigMap.
func (c *Controller) ofConfigMap(ctx context.Context, object client.Object) []reconcile.Request {
	var requests []reconcile.Request
	if object.GetName() != v1alpha1.KubeletConfigMap {
		return nil
	}
	err := machines.Each(ctx, c.client, func(machine *v1alpha1.Machine) {
		if isWaiting(machine) {
			requests = append(requests, reconciler.Request(machine.Namespace, machine.Name))
		}
	}, client.InNamespace(object.GetNamespace()), client.UnsafeDisableDeepCopy)
	if err != nil {
		reconciler.ReportUnwoken(ctx, err, "Listing machines to give them their kubelet configuration", "namespace", object.GetNamespace())
	}
	return requests
}
