package rollout

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
)

func newUndo(hub *cmdutil.Hub) *cobra.Command {
	var (
		number         int64
		allowDowngrade bool
	)
	c := newChangingCommand(hub, &cobra.Command{
		Use: "undo", Short: "Roll a MachineFleet or a MachineDeployment back to an earlier revision",
		Long: `Roll back to an earlier revision (default: the previous one). Its template becomes the template of the object, and rolls out
like any other change, by the object's strategy and within its bounds. Clusters of a MachineFleet that still have the template, or
were rolled back to it, are unchanged. A MachineFleet goes back to an older kubelet than a cluster has only with
--allow-downgrade, or if its spec.allowDowngrade is set.

A paused object gets the template too, but replaces nothing until it is resumed.

A SimulatedClusterSet is refused with exit code 4: a control plane cannot go back to an earlier minor.`,
		Example: `  # Back to the previous revision
  kubectl hollow rollout undo machinedeployment workers -n c1
  kubectl hollow rollout undo machinefleet workers --allow-downgrade

  # Back to a revision of "kubectl hollow rollout history"
  kubectl hollow rollout undo machinedeployment workers -n c1 --to-revision 2`,
	}, all, func(ctx context.Context, s *subject) ([]cmdutil.Fact, error) {
		if s.set != nil {
			return nil, s.refuseUndoOfSet()
		}
		if number < 0 {
			return nil, cmdutil.Usage("--to-revision: want a revision, got %d", number)
		}
		before := cmdutil.Fact{Name: "Kubelet before", Value: *s.kubeletVersion()}
		if s.fleet != nil {
			return []cmdutil.Fact{before}, s.undoFleet(ctx, number, allowDowngrade)
		}
		if allowDowngrade {
			return nil, cmdutil.Usage("--allow-downgrade: a machinedeployment does not need it")
		}
		return []cmdutil.Fact{before}, s.undoRollout(ctx, number)
	})
	c.Flags().Int64Var(&number, "to-revision", 0, "revision to roll back to; 0 for the previous one")
	c.Flags().BoolVar(&allowDowngrade, "allow-downgrade", false, "for a machinefleet: allow an older kubelet; sets spec.allowDowngrade")
	completeRevisions(hub, c, "to-revision")
	return c
}

func (s *subject) undoRollout(ctx context.Context, number int64) error {
	revisions, err := s.listRevisions(ctx)
	if err != nil {
		return err
	}
	chosen, err := s.chooseRevision(revisions, number)
	if err != nil {
		return err
	}
	template := chosen.userTemplate()
	if equality.Semantic.DeepEqual(template, s.deployment.Spec.Template) {
		s.printf("already has the template of revision %d", chosen.number)
		return nil
	}
	err = s.changeObject(ctx, func() {
		s.deployment.Spec.Template = template
		metav1.SetMetaDataAnnotation(&s.deployment.ObjectMeta, v1alpha1.RollbackAnnotation, fmt.Sprint(chosen.number))
	})
	if err != nil {
		return err
	}
	s.printf("rolled back to revision %d", chosen.number)
	if s.deployment.Spec.Paused {
		s.hub.Note("It is paused: nothing is replaced until kubectl hollow rollout resume machinedeployment %s -n %s", s.deployment.Name, s.deployment.Namespace)
	}
	return nil
}

// chooseRevision finds the revision of that number, or for 0 the one before the current. A template that has no revision yet,
// because the deployment is paused or the hub has not observed it, comes after all of them.
func (s *subject) chooseRevision(revisions []revision, number int64) (revision, error) {
	if number > 0 {
		return s.pickRevision(revisions, number)
	}
	current := s.currentRevision()
	if current == 0 {
		return revision{}, cmdutil.Refusal("machinedeployment %s has no revision yet: the hub has not read it", s.deployment.Name)
	}
	for i := len(revisions) - 1; i >= 0; i-- {
		if revisions[i].number > current {
			continue
		}
		same, err := plan.SameTemplate(revisions[i].set.Spec.Template, plan.TemplateBeside(s.deployment, revisions[i].set))
		if err != nil {
			return revision{}, fmt.Errorf("comparing revision %d: %w", revisions[i].number, err)
		}
		if !same {
			return revisions[i], nil
		}
	}
	return revision{}, cmdutil.NotFound("machinedeployment %s has no revision before its current revision, %d; it has %s",
		s.deployment.Name, current, cmp.Or(listNumbers(revisions), "none"))
}
