package machine

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/live"
)

// deletionTimeout is how long --wait waits. A drain may take longer.
const deletionTimeout = 10 * time.Minute

const deleteLong = `Delete a Machine. The command first shows what will happen: what the deletion waits for, whether the Node is drained, and whether
another Machine takes its place. Then it asks. Its cluster's agent does the rest: it drains the Node, and removes pod and Node.

A Machine of a frozen cluster, or whose agent is silent, stays until that is over; --wait then ends with exit code 5.`

func newDelete(hub *cmdutil.Hub) *cobra.Command {
	var change cmdutil.Change
	yes := false
	command := &cobra.Command{
		Use: "delete NAME", Short: "Delete a Machine, after showing what will happen", Long: deleteLong,
		Example: `  # Show what would happen, and change nothing
  kubectl hollow machine delete workers-7c9d4-x2x8z -n c1 --dry-run

  # In a script: do not ask, and wait until the Machine is gone
  kubectl hollow machine delete workers-7c9d4-x2x8z -n c1 --yes --wait`,
		Args: cmdutil.OneName, ValidArgsFunction: hub.CompleteNames(cmdutil.MachineKind, false),
		RunE: func(command *cobra.Command, args []string) error {
			if err := change.Output.Check(); err != nil {
				return err
			}
			c, err := change.DryRun.Client(hub)
			if err != nil {
				return err
			}
			d := &deletion{hub: hub, change: change, client: c, yes: yes}
			told, err := d.observe(command.Context(), args[0])
			if err != nil {
				return err
			}
			if err := d.run(command.Context(), told); err != nil {
				return err
			}
			return change.Output.Result(hub, told.document.Machine)
		},
	}
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	change = cmdutil.NewChange(command)
	cmdutil.AddWait(command, &change.Wait, false, "the Machine is gone", deletionTimeout, "")
	return command
}

// deletion deletes a Machine.
type deletion struct {
	hub    *cmdutil.Hub
	change cmdutil.Change
	client client.WithWatch
	yes    bool
}

// observe reads the Machine and what is around it.
func (d *deletion) observe(ctx context.Context, name string) (told *story, err error) {
	err = withinTime(ctx, longestReading, func(ctx context.Context) error {
		machine, err := getMachine(ctx, d.hub, d.client, name)
		if err == nil {
			told, err = newStory(machine, live.ReadKinds(ctx, d.client, listKinds(ctx, d.client, machine)), d.hub.DescribeUnread, time.Now())
		}
		return err
	})
	return told, err
}

// run says what will happen, asks, and deletes the Machine.
func (d *deletion) run(ctx context.Context, told *story) error {
	machine := told.document.Machine
	name := "machine.hollowfleet.io/" + machine.Name
	for _, line := range told.forecastDeletion() {
		d.hub.Note("%s.", strings.TrimSuffix(oneLine(line), "."))
	}
	if problem := cmdutil.DescribeStoppedHub(ctx, d.client, ""); problem != "" {
		d.hub.Note("This is the last known state, and no Machine is replaced meanwhile: %s", problem)
	}
	telling := d.change.Telling(d.hub)
	if machine.DeletionTimestamp != nil {
		telling.Say("%s is being deleted already, since %s", name, machine.DeletionTimestamp.UTC().Format(time.RFC3339))
	} else {
		if !d.yes && !d.change.DryRun.Active() {
			question := fmt.Sprintf("Delete Machine %s of cluster %s?", machine.Name, machine.Namespace)
			if err := d.hub.Confirm(question, "deleting machine "+machine.Name, "machine "+machine.Name+" was not deleted"); err != nil {
				return err
			}
		}
		err := d.client.Delete(ctx, machine, client.Preconditions{UID: &machine.UID})
		if apierrors.IsNotFound(err) {
			return cmdutil.NotFoundObject(cmdutil.MachineKind, machine.Name, machine.Namespace)
		}
		if err != nil {
			return fmt.Errorf("deleting machine %s: %w", machine.Name, err)
		}
		if d.change.DryRun.Active() {
			telling.Say("%s would be deleted", name)
		} else if !d.change.Waits() {
			telling.Say("%s is being deleted", name)
		}
	}
	if !d.change.Waits() {
		return nil
	}
	if err := d.awaitGone(ctx, telling, machine); err != nil {
		return err
	}
	telling.Say("%s deleted", name)
	return nil
}

// awaitGone waits until the Machine does not exist. Another one of its name is another Machine.
func (d *deletion) awaitGone(ctx context.Context, telling *cmdutil.Hub, machine *v1alpha1.Machine) error {
	held := ""
	return cmdutil.Within(ctx, d.change.Wait.Timeout, func(ctx context.Context) error {
		return cmdutil.UntilAll(ctx, d.client, &v1alpha1.MachineList{}, &v1alpha1.Machine{}, func(found []*v1alpha1.Machine) (bool, error) {
			for _, one := range found {
				if one.UID != machine.UID {
					continue
				}
				if now := describeHeld(one); now != held {
					held = now
					telling.Note("%s", oneLine(held))
				}
				return false, nil
			}
			return true, nil
		}, client.InNamespace(machine.Namespace), client.MatchingFields{"metadata.name": machine.Name})
	}, func() error {
		return cmdutil.Timeout("machine %s is still being deleted after %s: %s", machine.Name, formatLimit(d.change.Wait.Timeout), held)
	})
}

// describeHeld says what keeps a Machine that is being deleted.
func describeHeld(machine *v1alpha1.Machine) string {
	for _, kind := range []string{v1alpha1.MachineDrainedCondition, v1alpha1.ReadyCondition} {
		found := meta.FindStatusCondition(machine.Status.Conditions, kind)
		if found != nil && found.Status != "True" && found.Message != "" {
			return fmt.Sprintf("%s: %s", found.Reason, found.Message)
		}
	}
	return "its agent has not removed it yet; finalizers: " + cmp.Or(strings.Join(machine.Finalizers, ", "), "none")
}
