package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const (
	// stopTimeout is how long "disrupt stop" waits for the runs to be gone.
	stopTimeout = time.Minute
	// restoreTimeout is how long it waits before that for the Nodes: a kubelet that was cut off reports within 10 seconds, and one
	// that was ended starts again.
	restoreTimeout = 2 * time.Minute
)

// disruptStop is "disrupt stop".
type disruptStop struct {
	hub    *cmdutil.Hub
	dryRun *cmdutil.DryRun
	wait   cmdutil.Wait
}

func newDisruptStop(hub *cmdutil.Hub) *cobra.Command {
	d := &disruptStop{hub: hub}
	command := &cobra.Command{
		Use: "stop NAME", Short: "Restore the Nodes of a NodeDisruption, and delete it",
		Long: `Restore the Nodes of a NodeDisruption, and delete it. The command pauses it until the agents report that all of its Nodes are
healthy again, and then deletes it. After --timeout it is deleted anyway, with exit code 5. If an agent cannot reach the hub, its
Nodes are restored when it can, or when the fault ends. With --wait=false the disruption is deleted immediately, which restores the
Nodes too.`,
		Example: `  kubectl hollow disrupt stop outage
  kubectl hollow disrupt stop outage --wait=false`, Args: cmdutil.OneName,
		RunE: func(command *cobra.Command, args []string) error { return d.run(command.Context(), args[0]) },
	}
	cmdutil.AddWait(command, &d.wait, true, "the Nodes are healthy again and the runs are gone", restoreTimeout, "")
	d.dryRun = cmdutil.NewDryRun(command)
	return command
}

func (d *disruptStop) run(ctx context.Context, name string) error {
	c, err := d.dryRun.Client(d.hub)
	if err != nil {
		return err
	}
	disruption, err := getDisruption(ctx, c, name)
	if err != nil {
		return err
	}
	waits := d.wait.Enabled && !d.dryRun.Active()
	var ill []string
	if waits {
		if ill, err = d.restoreNodes(ctx, c, disruption); err != nil {
			d.hub.Note("The disruption is not deleted. To delete it without waiting: kubectl hollow disrupt stop %s --wait=false", name)
			return err
		}
	}
	if err := c.Delete(ctx, disruption, client.Preconditions{UID: &disruption.UID}); err != nil {
		return fmt.Errorf("deleting the disruption: %w", err)
	}
	d.dryRun.Telling(d.hub).Say("nodedisruption.hollowfleet.io/%s deleted", name)
	if !waits {
		return nil
	}
	if err := d.awaitGone(ctx, c, name); err != nil {
		return err
	}
	if len(ill) > 0 {
		return cmdutil.Timeout("the Nodes were not reported healthy again within %s: %s; their agents restore them when they reach the hub, or the faults end on their own", d.wait.Timeout, strings.Join(ill, ", "))
	}
	return nil
}

// restoreNodes pauses a disruption, and waits until no run of it has Nodes that are not healthy again. It returns the clusters where some
// are when the time is over.
func (d *disruptStop) restoreNodes(ctx context.Context, c client.WithWatch, disruption *v1alpha1.NodeDisruption) ([]string, error) {
	runs := &v1alpha1.NodeDisruptionRunList{}
	of := client.MatchingLabels{v1alpha1.NodeDisruptionNameLabel: disruption.Name}
	if err := c.List(ctx, runs, of); err != nil {
		return nil, fmt.Errorf("listing its runs: %w", err)
	}
	var all []*v1alpha1.NodeDisruptionRun
	for i := range runs.Items {
		all = append(all, &runs.Items[i])
	}
	ill := unrestoredNodes(all)
	if len(ill) == 0 {
		return nil, nil
	}
	patch := client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"paused":true}}`))
	if err := c.Patch(ctx, disruption, patch); err != nil {
		return nil, fmt.Errorf("pausing the disruption: %w", err)
	}
	d.hub.Say("nodedisruption.hollowfleet.io/%s paused, to restore its Nodes", disruption.Name)
	defer d.hub.NoteStoppedHub(ctx, c)()
	said := ""
	err := cmdutil.Within(ctx, d.wait.Timeout, func(ctx context.Context) error {
		return cmdutil.UntilAll(ctx, c, &v1alpha1.NodeDisruptionRunList{}, &v1alpha1.NodeDisruptionRun{}, func(runs []*v1alpha1.NodeDisruptionRun) (bool, error) {
			ill = unrestoredNodes(runs)
			if text := strings.Join(ill, ", "); text != "" && text != said {
				said = text
				d.hub.Say("waiting for %s", text)
			}
			return len(ill) == 0, nil
		}, of)
	}, func() error { return nil }) // The disruption is deleted all the same.
	if err != nil {
		return nil, fmt.Errorf("waiting for the Nodes: %w", err)
	}
	if len(ill) == 0 {
		d.hub.Say("its Nodes are healthy again")
	}
	return ill, nil
}

// unrestoredNodes says of each cluster whose agent has not restored all Nodes how many it has yet to restore, by name.
func unrestoredNodes(runs []*v1alpha1.NodeDisruptionRun) []string {
	count := map[string]int32{}
	for _, run := range runs {
		switch s := &run.Status; {
		case s.Phase == v1alpha1.NodeDisruptionCompleted || s.Phase == v1alpha1.NodeDisruptionFailed || s.StartTime == nil:
		case s.Phase == v1alpha1.NodeDisruptionPaused:
			if rest := s.Observed - s.Recovered; rest > 0 {
				count[run.Namespace] += rest
			}
		default: // The agent has not paused it yet.
			count[run.Namespace] += s.Selected
		}
	}
	var texts []string
	for _, cluster := range slices.Sorted(maps.Keys(count)) {
		texts = append(texts, plural.Count(count[cluster], "Node")+" of "+cluster)
	}
	return texts
}

// awaitGone waits until the runs of a deleted disruption are gone.
func (d *disruptStop) awaitGone(ctx context.Context, c client.WithWatch, name string) error {
	left := "whether its runs are gone is not known"
	return cmdutil.Within(ctx, stopTimeout, func(ctx context.Context) error {
		err := cmdutil.UntilAll(ctx, c, &v1alpha1.NodeDisruptionRunList{}, &v1alpha1.NodeDisruptionRun{}, func(runs []*v1alpha1.NodeDisruptionRun) (bool, error) {
			left = plural.Are(len(runs), "run") + " not gone"
			return len(runs) == 0, nil
		}, client.MatchingLabels{v1alpha1.NodeDisruptionNameLabel: name})
		if err != nil {
			return fmt.Errorf("waiting for the end of its runs: %w", err)
		}
		d.hub.Say("its runs are gone from all clusters")
		return nil
	}, func() error {
		return cmdutil.Timeout("%s after %s: %s", left, stopTimeout,
			cmdutil.DescribeStoppedHub(ctx, c, "the hub's garbage collector deletes them"))
	})
}
