package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet"
)

func newApprove(hub *cmdutil.Hub) *cobra.Command {
	var (
		groups []string
		all    bool
	)
	c := changing(hub, &cobra.Command{
		Use: "approve", Short: "Let the present template of a MachineFleet be applied to a group that waits for approval",
		Long: `Let the present template of a MachineFleet be applied to a group of clusters whose approval is Required. The approval is an
entry of spec.approvals, and holds for this template only. Without --group it is the one group that waits; if several do, they
are listed and nothing is approved.`,
		Example: `  kubectl hollow rollout approve machinefleet workers --group production`,
	}, []cmdutil.Kind{cmdutil.FleetKind}, func(ctx context.Context, s *subject) ([]cmdutil.Fact, error) {
		chosen, err := choose(s.fleet, groups, all)
		if err != nil {
			return nil, err
		}
		revision, err := fleet.Revision(s.fleet)
		if err != nil {
			return nil, err
		}
		if len(chosen) == 0 {
			s.printf("has every group approved already for revision %s", revision)
			return nil, nil
		}
		if err := s.change(ctx, func() { approve(s.fleet, revision, chosen) }); err != nil {
			return nil, err
		}
		s.printf("approved for revision %s: %s", revision, strings.Join(chosen, ", "))
		return nil, nil
	})
	c.Flags().StringArrayVar(&groups, "group", nil, "name of a group of spec.groups; may be given several times")
	c.Flags().BoolVar(&all, "all", false, "every group whose approval is Required")
	return c
}

// waiting are the groups that need an approval of the present template and do not have it.
func waiting(of *v1alpha1.MachineFleet) ([]string, error) {
	revision, err := fleet.Revision(of)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, group := range of.Spec.Groups {
		approved := slices.Contains(of.Spec.Approvals, v1alpha1.MachineFleetApproval{Group: group.Name, Revision: revision})
		if group.Approval == v1alpha1.GroupApprovalRequired && !approved {
			names = append(names, group.Name)
		}
	}
	return names, nil
}

// choose returns the groups that are to be approved and are not yet.
func choose(of *v1alpha1.MachineFleet, groups []string, all bool) ([]string, error) {
	if all && len(groups) > 0 {
		return nil, cmdutil.Usage("give --group or --all, not both")
	}
	open, err := waiting(of)
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		if !all && len(open) > 1 {
			return nil, cmdutil.Usage("several groups of machinefleet %s wait for approval: name them with --group, or give --all: %s", of.Name, strings.Join(open, ", "))
		}
		return open, nil
	}
	for _, name := range groups {
		i := slices.IndexFunc(of.Spec.Groups, func(group v1alpha1.MachineFleetGroup) bool { return group.Name == name })
		if i < 0 {
			return nil, cmdutil.NotFound("machinefleet %s has no group %q", of.Name, name)
		}
		if of.Spec.Groups[i].Approval != v1alpha1.GroupApprovalRequired {
			return nil, cmdutil.Refusal("group %q of machinefleet %s needs no approval: its approval is not Required", name, of.Name)
		}
	}
	return slices.DeleteFunc(open, func(name string) bool { return !slices.Contains(groups, name) }), nil
}

// approve sets the approvals of groups.
func approve(of *v1alpha1.MachineFleet, revision string, groups []string) {
	of.Spec.Approvals = slices.DeleteFunc(of.Spec.Approvals, func(approval v1alpha1.MachineFleetApproval) bool {
		return slices.Contains(groups, approval.Group)
	})
	for _, group := range groups {
		of.Spec.Approvals = append(of.Spec.Approvals, v1alpha1.MachineFleetApproval{Group: group, Revision: revision})
	}
}

// approveAll approves every group that needs it.
func approveAll(of *v1alpha1.MachineFleet) error {
	open, err := waiting(of)
	if err != nil {
		return fmt.Errorf("approving: %w", err)
	}
	revision, err := fleet.Revision(of)
	if err == nil {
		approve(of, revision, open)
	}
	return err
}
