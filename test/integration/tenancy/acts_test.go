package tenancy

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

const attemptTimeout = 2 * fleettest.Patience

// do is one act of an identity.
type do = func(ctx context.Context, c client.WithWatch) error

func get(object client.Object) do {
	return func(ctx context.Context, c client.WithWatch) error {
		return c.Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object))
	}
}

func list(kind client.ObjectList, options ...client.ListOption) do {
	return func(ctx context.Context, c client.WithWatch) error {
		return c.List(ctx, kind.DeepCopyObject().(client.ObjectList), options...)
	}
}

func watch(kind client.ObjectList, options ...client.ListOption) do {
	return func(ctx context.Context, c client.WithWatch) error {
		events, err := c.Watch(ctx, kind.DeepCopyObject().(client.ObjectList), options...)
		if err == nil {
			events.Stop()
		}
		return err
	}
}

func create(object client.Object) do {
	return func(ctx context.Context, c client.WithWatch) error {
		return c.Create(ctx, object.DeepCopyObject().(client.Object))
	}
}

func remove(object client.Object) do {
	return func(ctx context.Context, c client.WithWatch) error {
		return c.Delete(ctx, object.DeepCopyObject().(client.Object))
	}
}

func merge(object client.Object, patch string) do {
	return func(ctx context.Context, c client.WithWatch) error {
		return c.Patch(ctx, object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
}

func mergeStatus(object client.Object, patch string) do {
	return func(ctx context.Context, c client.WithWatch) error {
		return c.Status().Patch(ctx, object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
}

func jsonStatus(object client.Object, patch string) do {
	return func(ctx context.Context, c client.WithWatch) error {
		return c.Status().Patch(ctx, object.DeepCopyObject().(client.Object), client.RawPatch(types.JSONPatchType, []byte(patch)))
	}
}

// applyStatus applies fields of a status on the server, as the agent does.
func applyStatus(object client.Object, kind string, status map[string]any) do {
	return func(ctx context.Context, c client.WithWatch) error {
		applied := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind,
			"metadata": map[string]any{"name": object.GetName()}, "status": status,
		}}
		if namespace := object.GetNamespace(); namespace != "" {
			applied.SetNamespace(namespace)
		}
		return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.ForceOwnership, client.FieldOwner("hollowfleet-agent"))
	}
}

// update reads an object as the hub's administrator, changes it and writes it as a whole.
func update[T client.Object](object T, change func(T)) do {
	return func(ctx context.Context, c client.WithWatch) error {
		current, err := changed(ctx, object, change)
		if err != nil {
			return err
		}
		return c.Update(ctx, current)
	}
}

func updateStatus[T client.Object](object T, change func(T)) do {
	return func(ctx context.Context, c client.WithWatch) error {
		current, err := changed(ctx, object, change)
		if err != nil {
			return err
		}
		return c.Status().Update(ctx, current)
	}
}

func changed[T client.Object](ctx context.Context, object T, change func(T)) (T, error) {
	current := object.DeepCopyObject().(T)
	if err := hub.Client.Get(ctx, client.ObjectKeyFromObject(object), current); err != nil {
		return current, fmt.Errorf("preparing the attempt: %w", err)
	}
	change(current)
	return current, nil
}

// each does one act after another, up to the first that is refused.
func each(acts ...do) do {
	return func(ctx context.Context, c client.WithWatch) error {
		for _, act := range acts {
			if err := act(ctx, c); err != nil {
				return err
			}
		}
		return nil
	}
}

// prepared does something as the hub's administrator before the attempt, which tells only of the attempt.
func prepared(prepare func(ctx context.Context), act do) do {
	return func(ctx context.Context, c client.WithWatch) error {
		prepare(ctx)
		return act(ctx, c)
	}
}

func lease(namespace, name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now()}},
	}
}

// renewed writes a Lease as an agent does: it creates one that is not there.
func renewed(object *coordinationv1.Lease) do {
	renew := update(object, func(l *coordinationv1.Lease) { l.Spec.RenewTime = new(metav1.NowMicro()) })
	return func(ctx context.Context, c client.WithWatch) error {
		if err := create(object)(ctx, c); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return renew(ctx, c)
	}
}

// event is one about an object, in a namespace.
func event(namespace string, about corev1.ObjectReference) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "event-" + rand.String(8)},
		EventTime:  metav1.NowMicro(), ReportingController: "hollowfleet.io/agent", ReportingInstance: "x",
		Action: "Try", Reason: "Tried", Regarding: about, Type: corev1.EventTypeNormal,
	}
}

func about(namespace, kind, name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Namespace: namespace, Kind: kind, Name: name}
}

// spare is a Machine of a cluster that only one attempt uses.
func spare(cluster, name string, change func(*v1alpha1.Machine)) (*v1alpha1.Machine, func(context.Context)) {
	made := machine(cluster, name)
	if change != nil {
		change(made)
	}
	return made, func(ctx context.Context) {
		GinkgoHelper()
		hub.create(ctx, made.DeepCopy())
	}
}

// loadTestRun is an order to do nothing for a second.
func loadTestRun(cluster, name string) *v1alpha1.LoadTestRun {
	return &v1alpha1.LoadTestRun{ObjectMeta: in(cluster, name), Spec: v1alpha1.LoadTestRunSpec{Load: v1alpha1.Load{
		Steps: []v1alpha1.LoadStep{{Name: "rest", Phases: []v1alpha1.LoadPhase{{Action: v1alpha1.LoadWait, Duration: &metav1.Duration{Duration: time.Second}}}}},
	}}}
}

// disruptionRun is an order to let the Nodes of a cluster fail for a minute.
func disruptionRun(cluster, name string) *v1alpha1.NodeDisruptionRun {
	return &v1alpha1.NodeDisruptionRun{ObjectMeta: in(cluster, name), Spec: v1alpha1.NodeDisruptionRunSpec{Disruption: v1alpha1.Disruption{
		Faults: []disrupt.Fault{{Type: disrupt.NotReady}},
		Timing: v1alpha1.DisruptionTiming{Duration: metav1.Duration{Duration: time.Minute}},
	}}}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func in(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}
