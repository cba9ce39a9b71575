package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/follow"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// longestDisruption is as long as a run may be followed: it lasts 720 hours at most.
const longestDisruption = 721 * time.Hour

// disruptCreate is one "disrupt create".
type disruptCreate struct {
	cmdutil.Change
	hub   *cmdutil.Hub
	flags disruptFlags
	file  string
}

func newDisruptCreate(hub *cmdutil.Hub) *cobra.Command {
	d := &disruptCreate{hub: hub}
	command := &cobra.Command{
		Use: "create [NAME]", Short: "Create a NodeDisruption from flags or a file",
		Long: `Create a NodeDisruption from flags, or from a file with -f. --dry-run lists the Nodes that would be hit, and warns when the
eviction thresholds of the node lifecycle controller would be crossed. It asks the agents through a temporary NodeDisruption with
spec.dryRun: true; no Node is changed.

--wait follows the disruption to its end and prints a line whenever a cluster makes progress. The exit code is 5 if an expectation
was missed or --timeout has passed, and 1 if the disruption was not carried out in every cluster, frozen agents could not observe
everything that was expected, or, without --timeout, no hub has worked for two minutes.`,
		Example: `  # Show what it would hit
  kubectl hollow disrupt create outage --fault NotReady --for 2m --mode Percent --value 30 --dry-run

  # Make a third of the Nodes of the production clusters not ready, and fail unless they are tainted in time
  kubectl hollow disrupt create outage --clusters stage=production --fault NotReady --for 2m --mode Percent --value 30 \
    --expect taint=node.kubernetes.io/not-ready:NoExecute@1m --wait

  # From a file
  kubectl hollow disrupt create -f config/samples/nodedisruption.yaml`,
		Args: cmdutil.Args(cobra.MaximumNArgs(1)),
		RunE: func(command *cobra.Command, args []string) error { return d.run(command.Context(), args) },
	}
	d.flags.addFlags(command)
	command.Flags().StringVarP(&d.file, "filename", "f", "", "file with the NodeDisruption, instead of the flags that describe one")
	d.Change = cmdutil.NewChange(command)
	cmdutil.AddWait(command, &d.Wait, false, "the disruption is over", 0, "to its end; with --dry-run 30s")
	return command
}

func (d *disruptCreate) run(ctx context.Context, args []string) error {
	if err := d.Output.Check(); err != nil {
		return err
	}
	disruption, err := d.readDisruption(args)
	if err != nil {
		return err
	}
	if d.Wait.Enabled && disruption.Spec.Schedule != "" {
		return cmdutil.Usage("--wait: a disruption with a schedule has no end")
	}
	c, err := d.hub.Client()
	if err != nil {
		return err
	}
	if d.DryRun.Active() {
		return d.previewNodes(ctx, c, disruption)
	}
	err = c.Create(ctx, disruption)
	if apierrors.IsAlreadyExists(err) {
		return cmdutil.Refusal("nodedisruption %s already exists: choose another name, or remove it with: kubectl hollow disrupt stop %s", disruption.Name, disruption.Name)
	}
	if err != nil {
		return fmt.Errorf("creating the disruption: %w", err)
	}
	telling := d.Output.Telling(d.hub)
	telling.Say("nodedisruption.hollowfleet.io/%s created", disruption.Name)
	if d.Wait.Enabled {
		err = d.followRuns(ctx, telling, c, disruption)
	}
	return errors.Join(d.Output.Result(d.hub, disruption, cmdutil.Fact{Name: "Message", Value: disruption.Status.Message}), err)
}

// readDisruption makes the disruption of the flags or of the file.
func (d *disruptCreate) readDisruption(args []string) (*v1alpha1.NodeDisruption, error) {
	disruption := &v1alpha1.NodeDisruption{}
	if d.file != "" {
		if given := d.flags.givenFlags(); len(given) > 0 {
			return nil, cmdutil.Usage("-f and --%s both describe the disruption: use only one of them", given[0])
		}
		text, err := os.ReadFile(d.file)
		if err != nil {
			return nil, fmt.Errorf("reading the disruption: %w", err)
		}
		// The kind's own decoder keeps what it cannot decode for later, and knows no strictness.
		var raw struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
			Spec              v1alpha1.NodeDisruptionSpec `json:"spec"`
		}
		if err := yaml.UnmarshalStrict(text, &raw); err != nil {
			return nil, cmdutil.Usage("%s: %w", d.file, err)
		}
		if raw.Kind != "NodeDisruption" || raw.APIVersion != v1alpha1.GroupVersion.String() {
			return nil, cmdutil.Usage("%s: want a NodeDisruption of %s, got %s %s", d.file, v1alpha1.GroupVersion, raw.APIVersion, raw.Kind)
		}
		disruption.ObjectMeta, disruption.Spec = raw.ObjectMeta, raw.Spec
	} else {
		spec, err := d.flags.specOf()
		if err != nil {
			return nil, err
		}
		disruption.Spec = spec
	}
	if len(args) == 1 {
		disruption.Name = args[0]
	}
	if disruption.Name == "" {
		return nil, cmdutil.Usage("want a name")
	}
	// The API server refuses it too; so nothing is created for a dry run of it.
	if err := disruption.Spec.Validate(); err != nil {
		return nil, cmdutil.Usage("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return disruption, nil
}

// previewNodes asks all agents what would be hit.
func (d *disruptCreate) previewNodes(ctx context.Context, c client.WithWatch, wanted *v1alpha1.NodeDisruption) error {
	const patience, mostName = 30 * time.Second, 38
	if d.Wait.Timeout == 0 {
		d.Wait.Timeout = patience
	}
	shown := wanted.DeepCopy()
	shown.ObjectMeta = metav1.ObjectMeta{Name: wanted.Name[:min(len(wanted.Name), mostName)] + "-dry-run-" + rand.String(5)}
	// If this command ends before it has deleted it, the hub does so.
	shown.Annotations = map[string]string{v1alpha1.CommandDryRunAnnotation: fmt.Sprintf("%s %s", shown.Name, min(d.Wait.Timeout+time.Minute, 24*time.Hour))}
	shown.Spec.DryRun, shown.Spec.Paused = true, false
	if err := c.Create(ctx, shown); err != nil {
		return fmt.Errorf("creating the dry run: %w", err)
	}
	defer d.deleteDryRun(context.WithoutCancel(ctx), c, shown)
	clusters, err := countChosen(ctx, c, shown)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, d.Wait.Timeout)
	defer cancel()
	err = cmdutil.Until(bounded, c, &v1alpha1.NodeDisruptionList{}, client.ObjectKeyFromObject(shown), &v1alpha1.NodeDisruption{}, func(now *v1alpha1.NodeDisruption) (bool, error) {
		var err error
		if shown.Status = now.Status; now.Spec.PlacementRef != nil { // The hub makes all runs at once, when it knows the Placement's clusters.
			clusters, err = countChosen(ctx, c, now)
		}
		return hasPreviews(now, clusters), err
	})
	if shown.Status.Phase == v1alpha1.NodeDisruptionFailed {
		return cmdutil.Refusal("%s", shown.Status.Message)
	}
	d.printPreview(shown, clusters)
	wanted.Status = shown.Status
	if err == nil && hitsNothing(shown) {
		err = errors.New("no Node would be hit, so the disruption would fail: select more Nodes")
	}
	if _, own := d.Output.Own(); !own {
		return errors.Join(d.Output.Print(d.hub.Out, wanted), err)
	}
	if err != nil && hitsNothing(shown) && bounded.Err() == nil {
		return err
	}
	if err != nil {
		return cmdutil.Timeout("not every cluster has reported within %s what it would hit: %s", d.Wait.Timeout, cmdutil.DescribeStoppedHub(ctx, c, err.Error()))
	}
	return nil
}

// hasPreviews reports whether the hub shows all that it can of so many clusters, or never will.
func hasPreviews(shown *v1alpha1.NodeDisruption, clusters int) bool {
	const mostShown = 20
	unknown := shown.Spec.PlacementRef != nil && clusters == 0
	return !unknown && shown.Status.ObservedGeneration > 0 && len(shown.Status.Preview) >= min(clusters, mostShown) || shown.Status.Phase == v1alpha1.NodeDisruptionFailed
}

// countChosen is how many clusters a dry run chooses. Those of a Placement are those that it has runs in, or says that it leaves out.
func countChosen(ctx context.Context, c client.Client, shown *v1alpha1.NodeDisruption) (int, error) {
	chosen := map[string]bool{}
	if shown.Spec.PlacementRef != nil {
		runs := &v1alpha1.NodeDisruptionRunList{}
		if err := c.List(ctx, runs, client.MatchingLabels{v1alpha1.NodeDisruptionNameLabel: shown.Name}); err != nil {
			return 0, fmt.Errorf("listing the runs of the dry run: %w", err)
		}
		for i := range runs.Items {
			chosen[runs.Items[i].Namespace] = true
		}
		for _, one := range shown.Status.Preview {
			chosen[one.Cluster] = true
		}
		return len(chosen), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(shown.Spec.ClusterSelector)
	if err != nil {
		return 0, cmdutil.Usage("spec.clusterSelector: %w", err)
	}
	clusters := &v1alpha1.ClusterList{}
	if err := c.List(ctx, clusters, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return 0, fmt.Errorf("listing clusters: %w", err)
	}
	for i := range clusters.Items {
		if clusters.Items[i].Accepted() {
			chosen[clusters.Items[i].Name] = true
		}
	}
	return len(chosen), nil
}

// hitsNothing reports whether a preview has no Node, and none may come.
func hitsNothing(shown *v1alpha1.NodeDisruption) bool {
	comes := slices.ContainsFunc(shown.Spec.Faults, func(f disrupt.Fault) bool { return f.Type == disrupt.NeverJoin })
	return !comes && !slices.ContainsFunc(shown.Status.Preview, func(p v1alpha1.DisruptionPreview) bool { return p.Selected > 0 })
}

// deleteDryRun deletes the dry run, also for a user who has interrupted the command.
func (d *disruptCreate) deleteDryRun(ctx context.Context, c client.Client, shown *v1alpha1.NodeDisruption) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := c.Delete(ctx, shown); client.IgnoreNotFound(err) != nil {
		d.hub.Note("The dry run could not be deleted from the hub; it changes nothing: %v. To delete it: kubectl hollow disrupt stop %s", err, shown.Name)
	}
}

// printPreview prints a preview.
func (d *disruptCreate) printPreview(shown *v1alpha1.NodeDisruption, clusters int) {
	telling := d.Telling(d.hub)
	nodes := 0
	for _, one := range shown.Status.Preview {
		nodes += int(one.Selected)
		text := plural.Count(one.Selected, "Node")
		if len(one.Nodes) > 0 {
			text += ": " + strings.Join(one.Nodes, ", ")
		}
		if rest := int(one.Selected) - len(one.Nodes); rest > 0 {
			text += fmt.Sprintf(" and %d more", rest)
		}
		d.Output.Telling(d.hub).Say("%s: %s", one.Cluster, text)
		for _, warning := range one.Warnings {
			d.Output.Telling(d.hub).Say("%s: warning: %s", one.Cluster, warning)
		}
	}
	telling.Say("would hit %s in %d of %d clusters", plural.Count(nodes, "Node"), len(shown.Status.Preview), clusters)
}

// followRuns tells of each cluster whenever its run makes progress, until all are over.
func (d *disruptCreate) followRuns(ctx context.Context, telling *cmdutil.Hub, c client.WithWatch, disruption *v1alpha1.NodeDisruption) error {
	bounded, stop := telling.BoundWait(ctx, c, d.Wait.Timeout, longestDisruption)
	defer stop()
	err := follow.InLines(bounded, telling, c, follow.Whole[*v1alpha1.NodeDisruption]{
		List: &v1alpha1.NodeDisruptionList{}, Known: disruption,
		See: func(now *v1alpha1.NodeDisruption) (follow.State, bool, error) {
			*disruption = *now
			return follow.State{}, now.Status.Phase == v1alpha1.NodeDisruptionCompleted || now.Status.Phase == v1alpha1.NodeDisruptionFailed, nil
		},
	}, follow.Parts[*v1alpha1.NodeDisruptionRun]{
		List: &v1alpha1.NodeDisruptionRunList{}, Example: &v1alpha1.NodeDisruptionRun{},
		See: func(run *v1alpha1.NodeDisruptionRun) (follow.State, bool) {
			return follow.State{Line: run.Namespace + ": " + lineOf(run)}, run.Status.Message != "" && run.Labels[v1alpha1.NodeDisruptionNameLabel] == disruption.Name
		},
	})
	if err != nil {
		telling.Note("The disruption continues. To see its progress: kubectl hollow disrupt list. To end it: kubectl hollow disrupt stop %s", disruption.Name)
		if gone := cmdutil.GoneHub(bounded); gone != nil {
			return gone
		}
		return fmt.Errorf("following the disruption: %w", err)
	}
	telling.Say("%s: %s", disruption.Status.Phase, disruption.Status.Message)
	for _, failure := range disruption.Status.Failures {
		telling.Note("%s: %s", failure.Cluster, failure.Message)
	}
	switch {
	case disruption.Status.Verdict == v1alpha1.DisruptionMissed:
		return cmdutil.Timeout("the verdict is Failed: not every expectation was met in time")
	case disruption.Status.Phase == v1alpha1.NodeDisruptionFailed:
		return errors.New("the disruption was not carried out in every cluster")
	case disruption.Status.Verdict == v1alpha1.DisruptionUnknown:
		return errors.New("the verdict is Unknown: agents were frozen or not running, and could not observe every expectation; run it again")
	case disruption.Status.Verdict != "":
		telling.Say("the verdict is %s", disruption.Status.Verdict)
	}
	return nil
}

// lineOf is what a line says of a run.
func lineOf(run *v1alpha1.NodeDisruptionRun) string {
	s := &run.Status
	return fmt.Sprintf("%s: %d selected, %d injected, %d observed, %d recovered: %s", s.Phase, s.Selected, s.Injected, s.Observed, s.Recovered, s.Message)
}
