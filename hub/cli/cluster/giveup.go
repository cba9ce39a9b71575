package cluster

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// givenUp counts what the agent's finalizers were taken off.
type givenUp struct {
	machines, runs int
	// early is how many the last pass left, because they were not in deletion yet: the API server deletes the objects of a
	// namespace some seconds after the namespace itself.
	early int
}

// removeFinalizers takes the finalizers off all objects of a cluster that are in deletion, and returns whether none is left.
func (g *givenUp) removeFinalizers(ctx context.Context, telling *cmdutil.Hub, c client.Client, going *removal) (bool, error) {
	machines, runs, err := going.heldObjects(ctx, c)
	if err != nil {
		return false, err
	}
	all := len(machines) + len(runs)
	machines = slices.DeleteFunc(machines, func(machine v1alpha1.Machine) bool { return machine.DeletionTimestamp == nil })
	runs = slices.DeleteFunc(runs, func(run metav1.PartialObjectMetadata) bool { return run.DeletionTimestamp == nil })
	g.early = all - len(machines) - len(runs)
	if err := giveUp(ctx, telling, c, machines, runs); err != nil {
		return false, err
	}
	g.machines, g.runs = g.machines+len(machines), g.runs+len(runs)
	gone, err := going.releaseCluster(ctx, telling, c)
	return gone && g.early == 0, err
}

// heldObjects are the Machines and LoadTestRuns that are being deleted, or will be, and have the agent's finalizer.
func (r *removal) heldObjects(ctx context.Context, c client.Client) (machines []v1alpha1.Machine, runs []metav1.PartialObjectMetadata, err error) {
	if r.takesKind("machines") {
		if machines, err = heldMachines(ctx, c, r.namespace.Name); err != nil {
			return nil, nil, err
		}
	}
	if r.takesKind("loadtestruns") {
		runs, err = heldLoadTestRuns(ctx, c, r.namespace.Name)
	}
	return machines, runs, err
}

// giveUp takes the agent's finalizers off.
func giveUp(ctx context.Context, telling *cmdutil.Hub, c client.Client, machines []v1alpha1.Machine, runs []metav1.PartialObjectMetadata) error {
	for i := range machines {
		if err := removeFinalizer(ctx, c, &machines[i], v1alpha1.MachineFinalizer); err != nil {
			return fmt.Errorf("removing the finalizer of Machine %s: %w", machines[i].Name, err)
		}
		telling.Say("machine.hollowfleet.io/%s finalizer removed", machines[i].Name)
	}
	for i := range runs {
		name, uid := runs[i].Name, runs[i].UID
		if err := removeFinalizer(ctx, c, &runs[i], v1alpha1.LoadTestRunFinalizer); err != nil {
			return fmt.Errorf("removing the finalizer of LoadTestRun %s: %w", name, err)
		}
		telling.Say("loadtestrun.hollowfleet.io/%s finalizer removed", name)
		// When the run is gone, nothing on the hub has its UID any more.
		telling.Note("To find what is left of LoadTestRun %s in the workload cluster: kubectl get namespaces -l %s=%s", name, v1alpha1.LoadTestRunUIDLabel, uid)
	}
	return nil
}

// heldMachines are those of a namespace that have the agent's finalizer, also those that are not in deletion yet. A hub that is half
// removed may not have the kind any more.
func heldMachines(ctx context.Context, c client.Client, namespace string) ([]v1alpha1.Machine, error) {
	list := &v1alpha1.MachineList{}
	switch err := c.List(ctx, list, client.InNamespace(namespace)); {
	case meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing the Machines of namespace %s: %w", namespace, err)
	}
	return slices.DeleteFunc(list.Items, func(machine v1alpha1.Machine) bool {
		return !slices.Contains(machine.Finalizers, v1alpha1.MachineFinalizer)
	}), nil
}

// heldLoadTestRuns are those of a namespace that have the agent's finalizer, also those that are not in deletion yet. Only their metadata is read: a run
// has hundreds of kilobytes of measurements, and one that cannot be decoded has its metadata like any other.
func heldLoadTestRuns(ctx context.Context, c client.Client, namespace string) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("LoadTestRunList"))
	switch err := c.List(ctx, list, client.InNamespace(namespace)); {
	case meta.IsNoMatchError(err):
		// A hub of an earlier release has no load tests. Its Machines can be given up all the same.
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing the LoadTestRuns of namespace %s: %w", namespace, err)
	}
	held := slices.DeleteFunc(list.Items, func(run metav1.PartialObjectMetadata) bool {
		return !slices.Contains(run.Finalizers, v1alpha1.LoadTestRunFinalizer)
	})
	for i := range held {
		// The API server answers with the kind PartialObjectMetadata; a patch needs that of the object.
		held[i].SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("LoadTestRun"))
	}
	return held, nil
}

// removeFinalizer takes a finalizer off one object, which may be gone. The list is replaced as a whole, hence the lock.
func removeFinalizer(ctx context.Context, c client.Client, object client.Object, finalizer string) error {
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("copying %T: it is not an object", object)
	}
	controllerutil.RemoveFinalizer(object, finalizer)
	return client.IgnoreNotFound(c.Patch(ctx, object, reconciler.MergeFromWithLock(before)))
}
