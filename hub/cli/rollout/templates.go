package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// listTemplates are those that the fleet can go back to, the oldest first, and the revision of its current one.
func (s *subject) listTemplates(ctx context.Context) (kept []rollout.Template, current string, err error) {
	if kept, err = rollout.Templates(ctx, s.client, s.fleet); err != nil {
		return nil, "", err
	}
	current, err = rollout.FindRevision(ctx, s.client, s.fleet)
	return kept, current, err
}

func (s *subject) fleetHistory(ctx context.Context, output *cmdutil.Output, number int64) error {
	kept, current, err := s.listTemplates(ctx)
	if err != nil {
		return err
	}
	_, asTable := output.Own()
	if number > 0 {
		chosen, err := s.pickTemplate(kept, number)
		if err != nil {
			return err
		}
		if !asTable {
			return output.Print(s.hub.Out, chosen.Kept)
		}
		if err := s.sayRollouts(ctx, output, number); err != nil {
			return err
		}
		text, err := yaml.Marshal(chosen.Template)
		s.hub.Say("%s", text)
		return err
	}
	if !asTable {
		list := &appsv1.ControllerRevisionList{}
		for _, t := range kept {
			list.Items = append(list.Items, *t.Kept)
		}
		return output.Print(s.hub.Out, list)
	}
	deployments := &v1alpha1.MachineDeploymentList{}
	if err := s.client.List(ctx, deployments, client.MatchingFields{"metadata.name": s.fleet.Name}); err != nil {
		return fmt.Errorf("listing machinedeployments: %w", err)
	}
	clusters := map[string]int{}
	for i := range deployments.Items {
		if revision := rollout.RevisionOf(s.fleet, &deployments.Items[i]); revision != "" {
			clusters[revision]++
		}
	}
	return output.Table(s.hub.Out, templatesTable(kept, current, *s.kubeletVersion(), clusters, time.Now()))
}

// sayRollouts prints the records of the rollouts of a revision.
func (s *subject) sayRollouts(ctx context.Context, output *cmdutil.Output, number int64) error {
	rollouts, err := rollout.Rollouts(ctx, s.client, s.fleet)
	if err != nil {
		return err
	}
	for i := range rollouts {
		if rollouts[i].Number != number {
			continue
		}
		if err := cmdutil.SayRollout(s.hub, output, &rollouts[i], true); err != nil {
			return err
		}
		s.hub.Say("")
	}
	return nil
}

// templatesTable has a row for each template that is kept, and one for the current template if it was started in no cluster yet.
func templatesTable(kept []rollout.Template, current, kubelet string, clusters map[string]int, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("Revision", "Current", "Clusters", "Kubelet", "Age", "Hash")}
	for _, t := range kept {
		mark, has := "", "-"
		if t.Revision == current {
			mark = "*"
		}
		if t.Template != nil {
			has = cmp.Or(t.Template.Spec.Template.Spec.Versions.Kubelet, "-")
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			t.Number, mark, clusters[t.Revision], has, duration.HumanDuration(now.Sub(t.Kept.CreationTimestamp.Time)), t.Revision,
		}})
	}
	if !slices.ContainsFunc(kept, func(t rollout.Template) bool { return t.Revision == current }) {
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{"-", "*", 0, cmp.Or(kubelet, "-"), "not started", current}})
	}
	return table
}

// pickTemplate finds a template that can be read, or lists those that there are.
func (s *subject) pickTemplate(kept []rollout.Template, number int64) (rollout.Template, error) {
	i := slices.IndexFunc(kept, func(t rollout.Template) bool { return t.Number == number })
	if i < 0 {
		return rollout.Template{}, cmdutil.NotFound("%s has no revision %d (any more); it has %s", s.fullName(), number, cmp.Or(templateNumbers(kept), "none"))
	}
	if kept[i].Template == nil {
		return rollout.Template{}, fmt.Errorf("revision %d of %s cannot be read: see controllerrevision %s/%s", number, s.fullName(), kept[i].Kept.Namespace, kept[i].Kept.Name)
	}
	return kept[i], nil
}

func templateNumbers(kept []rollout.Template) string {
	var list []string
	for _, t := range kept {
		list = append(list, fmt.Sprint(t.Number))
	}
	return strings.Join(list, ", ")
}

// keptNumber is the number of a revision among those that are kept; 0 if it is not.
func keptNumber(kept []rollout.Template, revision string) int64 {
	for _, t := range kept {
		if t.Revision == revision {
			return t.Number
		}
	}
	return 0
}

// previousTemplate finds the newest template before the current one that nobody has gone back from. One that no cluster has been
// given yet comes after all that are kept.
func (s *subject) previousTemplate(kept []rollout.Template, current string) (int64, error) {
	present, undone := keptNumber(kept, current), s.undoneRevisions()
	for _, t := range slices.Backward(kept) {
		later := present > 0 && t.Number >= present
		if !later && t.Revision != current && t.Revision != s.fleet.Spec.AbortedRevision && !slices.Contains(undone, t.Number) {
			return t.Number, nil
		}
	}
	if len(kept) == 0 {
		return 0, cmdutil.NotFound("%s has no earlier revision", s.fullName())
	}
	return 0, cmdutil.NotFound("%s has no earlier revision that it has not been rolled back from; it has %s: choose one with --to-revision",
		s.fullName(), templateNumbers(kept))
}

// undoneRevisions are the numbers of the revisions that a user has gone back from.
func (s *subject) undoneRevisions() []int64 {
	var numbers []int64
	for text := range strings.SplitSeq(s.fleet.Annotations[v1alpha1.FleetUndoneAnnotation], ",") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// noteUndone remembers that the fleet goes back from one revision to another. A revision that is rolled out again gets another
// number, and is forgotten here.
func (s *subject) noteUndone(kept []rollout.Template, from string, to int64) {
	var numbers []string
	for _, t := range kept {
		if t.Number != to && (t.Revision == from || slices.Contains(s.undoneRevisions(), t.Number)) {
			numbers = append(numbers, fmt.Sprint(t.Number))
		}
	}
	metav1.SetMetaDataAnnotation(&s.fleet.ObjectMeta, v1alpha1.FleetUndoneAnnotation, strings.Join(numbers, ","))
}

// undoFleet gives the fleet an earlier template; for 0 the one before the present.
func (s *subject) undoFleet(ctx context.Context, number int64, allowDowngrade bool) error {
	kept, current, err := s.listTemplates(ctx)
	if err != nil {
		return err
	}
	if number == 0 {
		if number, err = s.previousTemplate(kept, current); err != nil {
			return err
		}
	}
	chosen, err := s.pickTemplate(kept, number)
	if err != nil {
		return err
	}
	if chosen.Revision == current {
		s.printf("already has the template of revision %d", number)
		return nil
	}
	if err := s.refuseDowngrade(ctx, chosen, allowDowngrade); err != nil {
		return err
	}
	err = s.changeObject(ctx, func() {
		chosen.Restore(s.fleet)
		s.noteUndone(kept, current, chosen.Number)
		if s.fleet.Spec.AbortedRevision == chosen.Revision {
			s.fleet.Spec.AbortedRevision = "" // A user who asks for the revision wants it rolled out.
		}
		s.fleet.Spec.AllowDowngrade = s.fleet.Spec.AllowDowngrade || allowDowngrade
	})
	if err != nil {
		return err
	}
	s.printf("rolled back to revision %d", number)
	if s.fleet.Spec.Paused {
		s.hub.Note("It is paused: nothing changes until kubectl hollow rollout resume %s", s.commandArguments())
	}
	return nil
}

// refuseDowngrade refuses a template with an older kubelet that the hub would not roll out. It does where clusters have that
// already, because they were rolled back.
func (s *subject) refuseDowngrade(ctx context.Context, chosen rollout.Template, allowed bool) error {
	before, after := *s.kubeletVersion(), chosen.Template.Spec.Template.Spec.Versions.Kubelet
	if allowed || s.fleet.Spec.AllowDowngrade || !isOlder(after, before) {
		return nil
	}
	wanted := rollout.WithSpec(s.fleet)
	wanted.Spec.Template = *chosen.Template
	preview, err := rollout.NewPreview(ctx, s.client, wanted, time.Now())
	if err != nil {
		return fmt.Errorf("looking at the clusters of %s: %w", s.fullName(), err)
	}
	if preview.Problem == nil {
		return nil
	}
	return cmdutil.Refusal("revision %d of %s has kubelet %s, which is older than %s: add --allow-downgrade, which sets spec.allowDowngrade", chosen.Number, s.fullName(), after, before)
}

// isOlder reports whether a version is older than another one; it is not if one of them cannot be read.
func isOlder(a, b string) bool {
	first, err := version.ParseSemantic(a)
	if err != nil {
		return false
	}
	second, err := version.ParseSemantic(b)
	return err == nil && first.LessThan(second)
}
