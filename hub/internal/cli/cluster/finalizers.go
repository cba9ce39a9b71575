package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

const removeFinalizersLong = `Take the agent's finalizers off the Machines and LoadTestRuns of a namespace that is being deleted, so that its deletion ends.

The agent of the cluster cannot do it: with the namespace it has lost its access to the hub. Nothing is deleted in the
workload cluster: pods and Nodes of these Machines stay there without a Machine, and the agent reports them as orphans.

The namespaces that these LoadTestRuns made stay there too, with their pods, and no agent reports them. They have the label
` + v1alpha1.LoadTestRunUIDLabel + ` with the UID of their run, which the command prints for each run. To find those of all runs
in the workload cluster, and to delete those of one:

  kubectl get namespaces -L ` + v1alpha1.LoadTestRunUIDLabel + ` -l ` + v1alpha1.LoadTestRunUIDLabel + `
  kubectl delete namespaces -l ` + v1alpha1.LoadTestRunUIDLabel + `=UID

If the Cluster still exists, the hub creates its namespace again. The agent then finds that the hub has lost what it
knew, and waits for kubectl hollow cluster acknowledge. MachineDeployments and MachineClasses have to be created again.

The command refuses with exit code 4 when the namespace is not being deleted.`

type finalizerOptions struct {
	yes, wait bool
	timeout   time.Duration
	output    *cmdutil.Output
	dryRun    *cmdutil.DryRun
}

func newRemoveFinalizers(hub *cmdutil.Hub) *cobra.Command {
	o := &finalizerOptions{}
	command := &cobra.Command{
		Use: "remove-finalizers NAME", Short: "Give up the Machines and LoadTestRuns of a namespace that is being deleted, so that its deletion ends",
		Long: removeFinalizersLong,
		Example: `  # Show what would be done
  kubectl hollow cluster remove-finalizers c1 --dry-run=client

  # In a script
  kubectl hollow cluster remove-finalizers c1 --yes`,
		Args: cmdutil.OneName, ValidArgsFunction: hub.CompleteClusters(false),
		RunE: func(command *cobra.Command, args []string) error { return o.run(command.Context(), hub, args[0]) },
	}
	command.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	command.Flags().BoolVar(&o.wait, "wait", true, "wait until the namespace is gone")
	command.Flags().DurationVar(&o.timeout, "timeout", defaultWait, "longest time to wait")
	o.output, o.dryRun = cmdutil.NewOutput(command), cmdutil.NewDryRun(command)
	return command
}

func (o *finalizerOptions) run(ctx context.Context, hub *cmdutil.Hub, name string) error {
	if err := o.output.Check(); err != nil {
		return err
	}
	c, err := o.dryRun.Client(hub)
	if err != nil {
		return err
	}
	namespace, err := deletedNamespace(ctx, c, name)
	if err != nil {
		return err
	}
	machines, err := heldMachines(ctx, c, name)
	if err != nil {
		return err
	}
	runs, err := heldLoadTestRuns(ctx, c, name)
	if err != nil {
		return err
	}
	if !o.yes && !o.dryRun.Active() {
		question := fmt.Sprintf("Give up %d Machine(s) and %d LoadTestRun(s) of namespace %s? In the workload cluster the pods and Nodes of the Machines stay,"+
			" and so do the namespaces that the LoadTestRuns made, with their pods.", len(machines), len(runs), name)
		if err := hub.Confirm(question, "removing finalizers in namespace "+name, "the Machines and LoadTestRuns of namespace "+name+" keep their finalizers"); err != nil {
			return err
		}
	}
	telling := o.dryRun.Telling(o.output.Telling(hub))
	given := &givenUp{}
	if err := given.pass(ctx, telling, c, name); err != nil {
		return err
	}
	switch {
	case o.wait && !o.dryRun.Active():
		if err := o.await(ctx, telling, c, namespace, given); err != nil {
			return err
		}
	case given.early > 0 && !o.dryRun.Active():
		telling.Note("%d objects of namespace %s are not in deletion yet and keep their finalizers: run the command again in some seconds, or without --wait=false", given.early, name)
	}
	return o.output.Result(hub, namespace, cmdutil.Fact{Name: "Machines given up", Value: fmt.Sprint(given.machines)},
		cmdutil.Fact{Name: "LoadTestRuns given up", Value: fmt.Sprint(given.runs)})
}

// givenUp counts what the agent's finalizers were taken off.
type givenUp struct {
	machines, runs int
	// early is how many the last pass left, because they were not in deletion yet: the API server deletes the objects of a
	// namespace some seconds after the namespace itself.
	early int
}

// pass takes the finalizers off all objects of a namespace that are in deletion.
func (g *givenUp) pass(ctx context.Context, telling *cmdutil.Hub, c client.Client, namespace string) error {
	machines, err := heldMachines(ctx, c, namespace)
	if err != nil {
		return err
	}
	runs, err := heldLoadTestRuns(ctx, c, namespace)
	if err != nil {
		return err
	}
	all := len(machines) + len(runs)
	machines = slices.DeleteFunc(machines, func(machine v1alpha1.Machine) bool { return machine.DeletionTimestamp == nil })
	runs = slices.DeleteFunc(runs, func(run metav1.PartialObjectMetadata) bool { return run.DeletionTimestamp == nil })
	g.early = all - len(machines) - len(runs)
	if err := giveUp(ctx, telling, c, machines, runs); err != nil {
		return err
	}
	g.machines, g.runs = g.machines+len(machines), g.runs+len(runs)
	return nil
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

// deletedNamespace reads the namespace of a cluster, which has to be in deletion.
func deletedNamespace(ctx context.Context, c client.Client, name string) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, namespace)
	switch {
	case apierrors.IsNotFound(err):
		return nil, cmdutil.NotFound("namespace %s does not exist: there is nothing to do", name)
	case err != nil:
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	case namespace.DeletionTimestamp == nil:
		return nil, cmdutil.Refusal("namespace %s is not being deleted: its Machines and LoadTestRuns keep their finalizers, by which the agent removes what they have in the workload cluster", name)
	}
	return namespace, nil
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
		return fmt.Errorf("copying %T: it is no object", object)
	}
	controllerutil.RemoveFinalizer(object, finalizer)
	return client.IgnoreNotFound(c.Patch(ctx, object, reconciler.MergeFromWithLock(before)))
}

// await repeats the pass until the namespace is gone: its objects come into deletion after it. One of the same name that the hub has made
// meanwhile is another one.
func (o *finalizerOptions) await(ctx context.Context, telling *cmdutil.Hub, c client.WithWatch, namespace *corev1.Namespace, given *givenUp) error {
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	err := wait.PollUntilContextCancel(limited, time.Second, true, func(ctx context.Context) (bool, error) {
		seen := &corev1.Namespace{}
		err := c.Get(ctx, client.ObjectKeyFromObject(namespace), seen)
		if apierrors.IsNotFound(err) || err == nil && seen.UID != namespace.UID {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading namespace %s: %w", namespace.Name, err)
		}
		// Between two reads an object may change, and the next pass reads it again.
		if err := given.pass(ctx, telling, c, namespace.Name); !apierrors.IsConflict(err) {
			return false, err
		}
		return false, nil
	})
	switch {
	case err != nil && ctx.Err() == nil && limited.Err() != nil:
		return cmdutil.Timeout("namespace %s is still being deleted after %s: kubectl get namespace %s -o yaml says what keeps it", namespace.Name, o.timeout, namespace.Name)
	case err != nil:
		return err
	}
	telling.Say("namespace/%s deleted", namespace.Name)
	return nil
}
