package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

const removeLong = `Remove a cluster from the fleet: delete its Cluster object and its join tokens, which ends its agent's access.

Nothing else is deleted. The namespace on the hub stays with its MachineDeployments, MachineSets and Machines, and
so do the Nodes of the workload cluster and what runs on them: no agent acts on them any more. To have the machines
gone as well, delete them first, while the agent still works, and wait until they are gone:

  kubectl -n NAME delete machinedeployments,machinesets,machines --all

Afterwards "kubectl delete namespace NAME" removes what is left on the hub. If Machines are left there, their finalizers
keep the namespace: see kubectl hollow cluster remove-finalizers. A cluster that was removed by mistake
joins again under the same name and takes up the Machines of its namespace, once you acknowledge that:
see kubectl hollow cluster acknowledge.`

func newRemove(hub *cmdutil.Hub) *cobra.Command {
	var (
		yes     bool
		timeout time.Duration
		output  *cmdutil.Output
		dryRun  *cmdutil.DryRun
	)
	command := &cobra.Command{
		Use: "remove NAME", Short: "Remove a cluster from the fleet; its machines run on", Long: removeLong,
		Example: `  # Asks before it does anything
  kubectl hollow cluster remove c1

  # In a script
  kubectl hollow cluster remove c1 --yes

  # Keep its Cluster object as it was
  kubectl hollow cluster remove c1 --yes -o yaml > c1.yaml`,
		Args: cmdutil.OneName, ValidArgsFunction: hub.CompleteClusters(false),
		RunE: func(command *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			c, err := dryRun.Client(hub)
			if err != nil {
				return err
			}
			cluster, err := get(command.Context(), c, args[0])
			if err != nil {
				return err
			}
			total, err := countMachines(command.Context(), c, cluster)
			if err != nil {
				return err
			}
			if !yes && !dryRun.Active() {
				question := fmt.Sprintf("Remove cluster %s? Its agent loses its access; its %d Machine(s) and their Nodes stay.", cluster.Name, total)
				if err := hub.Confirm(question, "removing cluster "+cluster.Name, "cluster "+cluster.Name+" was not removed"); err != nil {
					return err
				}
			}
			if err := remove(command.Context(), dryRun.Telling(output.Telling(hub)), c, cluster, total, timeout, !dryRun.Active()); err != nil {
				return err
			}
			return output.Result(hub, cluster, decided(cluster, cluster)...)
		},
	}
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	command.Flags().DurationVar(&timeout, "timeout", defaultWait, "longest time to wait until the hub has taken the agent's access away")
	output, dryRun = cmdutil.NewOutput(command), cmdutil.NewDryRun(command)
	return command
}

func countMachines(ctx context.Context, c client.Client, cluster *v1alpha1.Cluster) (int, error) {
	machines := &v1alpha1.MachineList{}
	if err := c.List(ctx, machines, client.InNamespace(cluster.Name)); err != nil {
		return 0, fmt.Errorf("counting the Machines of cluster %s: %w", cluster.Name, err)
	}
	return len(machines.Items), nil
}

func remove(ctx context.Context, hub *cmdutil.Hub, c client.WithWatch, cluster *v1alpha1.Cluster, machines int, timeout time.Duration, wait bool) error {
	if err := deleteTokens(ctx, hub, c, cluster.Name); err != nil {
		return err
	}
	if err := c.Delete(ctx, cluster, client.Preconditions{UID: &cluster.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Cluster %s: %w", cluster.Name, err)
	}
	if !wait {
		hub.Say("cluster.hollowfleet.io/%s removed", cluster.Name)
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := cmdutil.UntilGone(limited, c, &v1alpha1.ClusterList{}, client.ObjectKeyFromObject(cluster), &v1alpha1.Cluster{})
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return cmdutil.Timeout("cluster %s is still being removed after %s: is the hub running? Its agent keeps its access until the hub takes it away", cluster.Name, timeout)
	}
	if err != nil {
		return err
	}
	hub.Say("cluster.hollowfleet.io/%s removed", cluster.Name)
	if machines > 0 {
		hub.Note("%d Machine(s) stay in namespace %s, and their Nodes in the workload cluster: see kubectl hollow cluster remove --help", machines, cluster.Name)
	}
	return nil
}

const removeFinalizersLong = `Take the agent's finalizer off the Machines of a namespace that is being deleted, so that its deletion ends.

The agent of the cluster cannot do it: with the namespace it has lost its access to the hub. Nothing is deleted in the
workload cluster: pods and Nodes of these Machines stay there without a Machine, and the agent reports them as orphans.

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
		Use: "remove-finalizers NAME", Short: "Give up the Machines of a namespace that is being deleted, so that its deletion ends",
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
	if !o.yes && !o.dryRun.Active() {
		question := fmt.Sprintf("Give up %d Machine(s) of namespace %s? Their pods and Nodes stay in the workload cluster.", len(machines), name)
		if err := hub.Confirm(question, "removing finalizers in namespace "+name, "the Machines of namespace "+name+" keep their finalizers"); err != nil {
			return err
		}
	}
	telling := o.dryRun.Telling(o.output.Telling(hub))
	for i := range machines {
		if err := removeFinalizer(ctx, c, &machines[i]); err != nil {
			return err
		}
		telling.Say("machine.hollowfleet.io/%s finalizer removed", machines[i].Name)
	}
	if o.wait && !o.dryRun.Active() {
		if err := o.await(ctx, telling, c, namespace); err != nil {
			return err
		}
	}
	return o.output.Result(hub, namespace, cmdutil.Fact{Name: "Machines given up", Value: fmt.Sprint(len(machines))})
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
		return nil, cmdutil.Refusal("namespace %s is not being deleted: its Machines keep their finalizers, by which the agent removes their pods and Nodes", name)
	}
	return namespace, nil
}

// heldMachines are those of a namespace that are being deleted and have the agent's finalizer.
func heldMachines(ctx context.Context, c client.Client, namespace string) ([]v1alpha1.Machine, error) {
	list := &v1alpha1.MachineList{}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the Machines of namespace %s: %w", namespace, err)
	}
	return slices.DeleteFunc(list.Items, func(machine v1alpha1.Machine) bool {
		return machine.DeletionTimestamp == nil || !slices.Contains(machine.Finalizers, v1alpha1.MachineFinalizer)
	}), nil
}

// removeFinalizer takes the agent's finalizer off one Machine. The list is replaced as a whole, hence the lock.
func removeFinalizer(ctx context.Context, c client.Client, machine *v1alpha1.Machine) error {
	before := machine.DeepCopy()
	machine.Finalizers = slices.DeleteFunc(machine.Finalizers, func(name string) bool { return name == v1alpha1.MachineFinalizer })
	err := c.Patch(ctx, machine, reconciler.MergeFromWithLock(before))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of Machine %s: %w", machine.Name, err)
	}
	return nil
}

// await waits until the namespace is gone. One of the same name that the hub has made meanwhile is another one.
func (o *finalizerOptions) await(ctx context.Context, telling *cmdutil.Hub, c client.WithWatch, namespace *corev1.Namespace) error {
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	err := cmdutil.Until(limited, c, &corev1.NamespaceList{}, client.ObjectKeyFromObject(namespace), &corev1.Namespace{},
		func(seen *corev1.Namespace) (bool, error) { return seen.UID != namespace.UID, nil })
	switch {
	case err != nil && ctx.Err() == nil && limited.Err() != nil:
		return cmdutil.Timeout("namespace %s is still being deleted after %s: kubectl get namespace %s -o yaml says what keeps it", namespace.Name, o.timeout, namespace.Name)
	case err != nil && cmdutil.Code(err) != cmdutil.Missing:
		return err
	}
	telling.Say("namespace/%s deleted", namespace.Name)
	return nil
}
