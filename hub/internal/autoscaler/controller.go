// Package autoscaler keeps the annotations that cluster-autoscaler's clusterapi provider reads on
// MachineDeployments, and on MachineSets that have none: what a Node will look like before there is one, and that
// nothing is to be scaled while it is frozen or paused.
package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// +kubebuilder:rbac:groups=hollowfleet.io,resources=machineclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinedeployments;machinesets,verbs=get;list;watch;patch

// fieldManager owns the annotations that the controller writes. Those of another manager are a user's, and stay.
const fieldManager = "hollowfleet-autoscaling"

// attempts bounds the writes of one reconciliation: the second one leaves out what belongs to others.
const attempts = 3

// Controller is the logic of one kind.
type Controller[T any, P object[T]] struct {
	client client.Client
}

// object is a kind that cluster-autoscaler can scale.
type object[T any] interface {
	*T
	client.Object
}

// New returns a Controller of MachineDeployments or MachineSets.
func New[T any, P object[T]](c client.Client) (*Controller[T, P], error) {
	if c == nil {
		return nil, errors.New("making the autoscaling controller: no client")
	}
	return &Controller[T, P]{client: c}, nil
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller[T, P]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	current := P(new(T))
	if err := c.client.Get(ctx, request.NamespacedName, current); apierrors.IsNotFound(err) || undecodable.Is(err) {
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("getting %s: %w", request, err)
	}
	group, scaled := groupOf(current)
	if !scaled || current.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil
	}
	in := Input{
		Template: group.template, Annotations: current.GetAnnotations(),
		Held: group.paused || freeze.OfCondition("", current, group.conditions).Frozen,
	}
	var err error
	if in.Class, err = c.findClass(ctx, current.GetNamespace(), group.template); err != nil {
		return reconcile.Result{}, err
	}
	if in.Kubelet, err = c.findKubelet(ctx, current.GetNamespace(), group.template.ConfigSource); err != nil {
		return reconcile.Result{}, err
	}
	if decided := Decide(in); decided.Write {
		klog.FromContext(ctx).V(2).Info("Writing annotations for cluster-autoscaler", "annotations", decided.Annotations)
		return reconcile.Result{}, c.applyAnnotations(ctx, current, decided.Annotations)
	}
	return reconcile.Result{}, nil
}

// group is what cluster-autoscaler calls a node group.
type group struct {
	template   v1alpha1.MachineTemplateBody
	paused     bool
	conditions []metav1.Condition
}

// groupOf reports false for what cluster-autoscaler does not scale: a set that a deployment scales.
func groupOf(object client.Object) (group, bool) {
	switch typed := object.(type) {
	case *v1alpha1.MachineDeployment:
		return group{typed.Spec.Template.Spec, typed.Spec.Paused, typed.Status.Conditions}, true
	case *v1alpha1.MachineSet:
		owner := metav1.GetControllerOfNoCopy(typed)
		return group{typed.Spec.Template.Spec, false, typed.Status.Conditions}, owner == nil || owner.Kind != "MachineDeployment"
	}
	return group{}, false
}

func (c *Controller[T, P]) findClass(ctx context.Context, namespace string, template v1alpha1.MachineTemplateBody) (*v1alpha1.MachineClass, error) {
	reference := template.ProviderConfig.ValueRef
	if reference == nil {
		return nil, nil
	}
	class := &v1alpha1.MachineClass{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: reference.Name}, class)
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("getting machine class %s: %w", reference.Name, err)
	}
	return class, nil
}

// applyAnnotations writes annotations by server-side apply, which takes away what this controller wrote before and does not
// want any more, and refuses what another client has set to another value. Those are left out.
func (c *Controller[T, P]) applyAnnotations(ctx context.Context, to client.Object, annotations map[string]string) error {
	kind, err := apiutil.GVKForObject(to, c.client.Scheme())
	if err != nil {
		return fmt.Errorf("finding the kind: %w", err)
	}
	options := []client.ApplyOption{client.FieldOwner(fieldManager)}
	for range attempts {
		wanted := &unstructured.Unstructured{}
		wanted.SetGroupVersionKind(kind)
		wanted.SetNamespace(to.GetNamespace())
		wanted.SetName(to.GetName())
		// Without it, apply would make an object that is gone again.
		wanted.SetUID(to.GetUID())
		wanted.SetAnnotations(annotations)
		err = c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), options...)
		others := conflictingAnnotations(err)
		if len(others) == 0 {
			break
		}
		for _, key := range others {
			if key == v1alpha1.AutoscalingHashAnnotation { // No other client writes it.
				options = append(options, client.ForceOwnership)
				continue
			}
			delete(annotations, key)
		}
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) && len(conflictingAnnotations(err)) == 0 {
		return nil // Gone, or another of its name.
	} else if err != nil {
		return fmt.Errorf("writing annotations for cluster-autoscaler: %w", err)
	}
	return nil
}

// conflictingAnnotations returns the annotations that belong to others, if that is what err says.
func conflictingAnnotations(err error) []string {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var keys []string
	for _, cause := range status.Status().Details.Causes {
		if key, found := strings.CutPrefix(cause.Field, ".metadata.annotations."); found {
			keys = append(keys, key)
		}
	}
	return keys
}

// SetupWithManager lets manager run the controllers of both kinds.
func SetupWithManager(manager ctrl.Manager, options controller.Options) error {
	deployments, err := New[v1alpha1.MachineDeployment](manager.GetClient())
	if err != nil {
		return err
	}
	sets, err := New[v1alpha1.MachineSet](manager.GetClient())
	if err != nil {
		return err
	}
	for name, kind := range map[string]struct {
		object client.Object
		list   func() client.ObjectList
		reconcile.Reconciler
	}{
		"autoscaling-machinedeployment": {&v1alpha1.MachineDeployment{}, func() client.ObjectList { return &v1alpha1.MachineDeploymentList{} }, deployments},
		"autoscaling-machineset":        {&v1alpha1.MachineSet{}, func() client.ObjectList { return &v1alpha1.MachineSetList{} }, sets},
	} {
		users := findUsers(manager.GetClient(), kind.list)
		err := builder.ControllerManagedBy(manager).Named(name).
			For(kind.object, builder.WithPredicates(predicate.Or(
				predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, frozenChanged(),
			))).
			Watches(&v1alpha1.MachineClass{}, handler.EnqueueRequestsFromMapFunc(users), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
			Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(users)).
			WithOptions(ofOneKind(options)).
			Complete(kind)
		if err != nil {
			return fmt.Errorf("setting the controller %s up: %w", name, err)
		}
	}
	return nil
}

// ofOneKind returns options with a rate limiter that no other controller has: a deployment and a set may have one name, and
// the failures of one must not put the other off.
func ofOneKind(options controller.Options) controller.Options {
	if options.RateLimiter != nil {
		options.RateLimiter = reconciler.Retries()
	}
	return options
}

// frozenChanged lets an update pass that freezes or thaws an object.
func frozenChanged() predicate.Predicate {
	frozen := func(object client.Object) any {
		group, _ := groupOf(object)
		if condition := meta.FindStatusCondition(group.conditions, v1alpha1.FrozenCondition); condition != nil {
			return condition.Status
		}
		return nil
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return frozen(e.ObjectOld) != frozen(e.ObjectNew) }}
}

// findUsers maps a class, or the ConfigMap of kubelet configurations, to the objects that refer to it.
func findUsers(c client.Client, newList func() client.ObjectList) handler.MapFunc {
	return func(ctx context.Context, used client.Object) []reconcile.Request {
		_, isConfigMap := used.(*corev1.ConfigMap)
		if isConfigMap && used.GetName() != v1alpha1.KubeletConfigMap {
			return nil
		}
		list := newList()
		if err := c.List(ctx, list, client.InNamespace(used.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
			klog.FromContext(ctx).Error(err, "Listing what uses a machine class or a kubelet configuration", "name", klog.KObj(used))
			return nil
		}
		var requests []reconcile.Request
		for _, user := range itemsOf(list) {
			group, _ := groupOf(user)
			reference := group.template.ProviderConfig.ValueRef
			if isConfigMap && group.template.ConfigSource != nil || !isConfigMap && reference != nil && reference.Name == used.GetName() {
				requests = append(requests, reconciler.Request(user.GetNamespace(), user.GetName()))
			}
		}
		return requests
	}
}

func itemsOf(list client.ObjectList) []client.Object {
	var items []client.Object
	switch typed := list.(type) {
	case *v1alpha1.MachineDeploymentList:
		for i := range typed.Items {
			items = append(items, &typed.Items[i])
		}
	case *v1alpha1.MachineSetList:
		for i := range typed.Items {
			items = append(items, &typed.Items[i])
		}
	}
	return items
}
