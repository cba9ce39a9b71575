package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const removeFinalizersLong = `Remove the agent's finalizers from the Machines and LoadTestRuns of a namespace that is being deleted, so that its deletion can finish.

The cluster's agent cannot do it: it lost its access to the hub with the namespace. Nothing is deleted in the
workload cluster: pods and Nodes of these Machines stay there, and the agent reports them as orphans.

The namespaces that these LoadTestRuns made stay there too, with their pods, and no agent reports them. They have the label
` + v1alpha1.LoadTestRunUIDLabel + ` with the UID of their run, which the command prints for each run. To find those of all runs
in the workload cluster, and to delete those of one:

  kubectl get namespaces -L ` + v1alpha1.LoadTestRunUIDLabel + ` -l ` + v1alpha1.LoadTestRunUIDLabel + `
  kubectl delete namespaces -l ` + v1alpha1.LoadTestRunUIDLabel + `=UID

If the Cluster still exists, the hub creates its namespace again. The agent then finds that the hub has lost its Machines,
and waits for kubectl hollow cluster acknowledge. You must create MachineDeployments and MachineClasses again.

A hub that was uninstalled while it had Clusters, and whose CustomResourceDefinitions are being deleted, stays half removed: nobody removes these
finalizers, nor the hub's finalizer on the Cluster. The command then removes both, for objects whose kinds are being deleted. While a hub works,
it leaves the Cluster to the hub.

The command refuses with exit code 4 when neither the namespace nor a kind is being deleted.`

type finalizerOptions struct {
	cmdutil.Change
	yes bool
}

func newRemoveFinalizers(hub *cmdutil.Hub) *cobra.Command {
	o := &finalizerOptions{}
	command := &cobra.Command{
		Use: "remove-finalizers NAME", Short: "Force-remove the Machines and LoadTestRuns of a namespace that is being deleted",
		Long: removeFinalizersLong,
		Example: `  # Show what would be done
  kubectl hollow cluster remove-finalizers c1 --dry-run=client

  # In a script
  kubectl hollow cluster remove-finalizers c1 --yes`,
		Args: cmdutil.OneName, ValidArgsFunction: hub.CompleteClusters(false),
		RunE: func(command *cobra.Command, args []string) error { return o.run(command.Context(), hub, args[0]) },
	}
	command.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	o.Change = cmdutil.NewChange(command)
	cmdutil.AddWait(command, &o.Wait, true, "the namespace is gone", defaultWait, "")
	return command
}

func (o *finalizerOptions) run(ctx context.Context, hub *cmdutil.Hub, name string) error {
	if err := o.Output.Check(); err != nil {
		return err
	}
	c, err := o.DryRun.Client(hub)
	if err != nil {
		return err
	}
	going, err := findRemoval(ctx, c, name)
	if err != nil {
		return err
	}
	machines, runs, err := going.heldObjects(ctx, c)
	if err != nil {
		return err
	}
	if !o.yes && !o.DryRun.Active() {
		question := fmt.Sprintf("Force-remove %s and %s of namespace %s? The pods and Nodes of the Machines stay in the workload cluster,"+
			" and so do the namespaces that the LoadTestRuns made, with their pods.", plural.Count(len(machines), "Machine"), plural.Count(len(runs), "LoadTestRun"), name)
		if err := hub.Confirm(question, "removing finalizers in namespace "+name, "the Machines and LoadTestRuns of namespace "+name+" keep their finalizers"); err != nil {
			return err
		}
	}
	telling := o.Telling(hub)
	given := &givenUp{}
	if _, err := given.removeFinalizers(ctx, telling, c, going); err != nil {
		return err
	}
	switch {
	case o.Waits():
		if err := o.awaitGone(ctx, telling, c, going, given); err != nil {
			return err
		}
	case given.early > 0 && !o.DryRun.Active():
		telling.Note("%s of namespace %s not in deletion yet, with finalizers: run the command again in a few seconds, or without --wait=false", plural.Count(given.early, "object"), name)
	}
	return o.Output.Result(hub, going.namespace, cmdutil.Fact{Name: "Machines given up", Value: fmt.Sprint(given.machines)},
		cmdutil.Fact{Name: "LoadTestRuns given up", Value: fmt.Sprint(given.runs)})
}

// isNamespaceGone reports whether a namespace that is being deleted is gone.
func (r *removal) isNamespaceGone(ctx context.Context, c client.Client) (bool, error) {
	if !r.deleting {
		return false, nil
	}
	seen := &corev1.Namespace{}
	err := c.Get(ctx, client.ObjectKeyFromObject(r.namespace), seen)
	if apierrors.IsNotFound(err) || err == nil && seen.UID != r.namespace.UID {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", r.namespace.Name, err)
	}
	return false, nil
}

// awaitGone repeats the pass until all is gone that is being deleted: objects come into deletion after their namespace or kind. A namespace of the
// same name that the hub has made meanwhile is another one.
func (o *finalizerOptions) awaitGone(ctx context.Context, telling *cmdutil.Hub, c client.WithWatch, going *removal, given *givenUp) error {
	name := going.namespace.Name
	err := cmdutil.Within(ctx, o.Wait.Timeout, func(ctx context.Context) error {
		return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
			if gone, err := going.isNamespaceGone(ctx, c); gone || err != nil {
				return gone, err
			}
			// Between two reads an object may change, and the next pass reads it again.
			done, err := given.removeFinalizers(ctx, telling, c, going)
			if apierrors.IsConflict(err) {
				return false, nil
			}
			return done && !going.deleting, err
		})
	}, func() error {
		if !going.deleting {
			return cmdutil.Timeout("objects of cluster %s are still being deleted with their kinds after %s: kubectl hollow status names them", name, o.Wait.Timeout)
		}
		return cmdutil.Timeout("namespace %s is still being deleted after %s: kubectl get namespace %s -o yaml shows why", name, o.Wait.Timeout, name)
	})
	if err != nil {
		return err
	}
	if going.deleting {
		telling.Say("namespace/%s deleted", name)
		return nil
	}
	telling.Note("Namespace %s stays. To delete it with what the hub created in it: kubectl delete namespace %s", name, name)
	return nil
}
