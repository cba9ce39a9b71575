package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// hubPatience is how long a command waits for the hub to look at a spec that was just changed.
const hubPatience = 15 * time.Second

func newApprove(hub *cmdutil.Hub) *cobra.Command {
	var (
		groups []string
		all    bool
	)
	c := newChangingCommand(hub, &cobra.Command{
		Use: "approve", Short: "Approve the current rollout of a MachineFleet or SimulatedClusterSet for a group of clusters",
		Long: `Approve the current rollout of a MachineFleet or SimulatedClusterSet for a group of clusters whose approval is Required. The approval is a
FleetApproval with your name. It covers this rollout only: other templates, an undo and a retry need another one.
Without --group the command approves the one group that is waiting; if several are waiting, it lists them and approves nothing.

You need the ClusterRole ` + v1alpha1.ApproverRole + `, which does not allow you to change fleets; without it the exit code is 4. To
withdraw an approval before the group starts: kubectl delete fleetapproval NAME`,
		Example: `  kubectl hollow rollout approve machinefleet workers --group production
  kubectl hollow rollout approve simulatedclusterset simulated --group production`,
	}, waving, func(ctx context.Context, s *subject) ([]cmdutil.Fact, error) {
		if s.set != nil {
			return nil, s.approveSet(ctx, groups, all)
		}
		if err := s.awaitRollout(ctx); err != nil {
			return nil, err
		}
		given, err := s.approversByGroup(ctx)
		if err != nil {
			return nil, err
		}
		chosen, err := chooseGroups(s.fleet, string(cmdutil.FleetKind), given, groups, all)
		if err != nil {
			return nil, err
		}
		return nil, s.createApprovals(ctx, chosen, given)
	})
	c.Flags().StringArrayVar(&groups, "group", nil, "name of a group of spec.groups; can be given several times")
	c.Flags().BoolVar(&all, "all", false, "every group whose approval is Required")
	return c
}

// awaitRollout waits until the status shows the rollout of the current spec: what is approved is what the hub rolls out.
func (s *subject) awaitRollout(ctx context.Context) error {
	asked := s.fleet.DeepCopy()
	shown := func(f *v1alpha1.MachineFleet) bool {
		return f.Status.ObservedGeneration >= f.Generation && f.Status.Rollout > 0
	}
	if !shown(s.fleet) {
		return cmdutil.Within(ctx, hubPatience, func(ctx context.Context) error {
			return cmdutil.Until(ctx, s.client, &v1alpha1.MachineFleetList{}, client.ObjectKeyFromObject(s.fleet), s.fleet,
				func(f *v1alpha1.MachineFleet) (bool, error) {
					if !rollout.HaveSameText(asked, f) {
						return false, cmdutil.Refusal("%s got other templates in the meantime: check them, and approve again", s.fullName())
					}
					s.fleet = f
					return shown(f), nil
				})
		}, func() error {
			return cmdutil.Refusal("%s cannot be approved: the hub has not observed its current spec yet", s.fullName())
		})
	}
	return nil
}

// approversByGroup has who has approved the current rollout, by group. It is empty if the user may not see that.
func (s *subject) approversByGroup(ctx context.Context) (map[string]string, error) {
	given, err := rollout.Approvals(ctx, s.client, s.fleet)
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	by := map[string]string{}
	for _, approval := range given {
		by[approval.Spec.Group] = cmp.Or(by[approval.Spec.Group], approval.Spec.Approver)
	}
	return by, nil
}

// gatedGroups are the groups that need an approval: by the spec, or because the rollout started when they did.
func gatedGroups(of *v1alpha1.MachineFleet) []string {
	var names []string
	for _, group := range of.Spec.Groups {
		if group.Approval == v1alpha1.GroupApprovalRequired {
			names = append(names, group.Name)
		}
	}
	for _, name := range of.Status.AwaitingApproval {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// chooseGroups returns the groups that are to be approved. given has those that are approved already.
func chooseGroups(of *v1alpha1.MachineFleet, kind string, given map[string]string, groups []string, all bool) ([]string, error) {
	if all && len(groups) > 0 {
		return nil, cmdutil.Usage("use --group or --all, not both")
	}
	open := gatedGroups(of)
	for _, name := range groups {
		switch {
		case slices.Contains(open, name):
		case slices.ContainsFunc(of.Spec.Groups, func(group v1alpha1.MachineFleetGroup) bool { return group.Name == name }):
			return nil, cmdutil.Refusal("group %q of %s %s needs no approval: its approval is not Required", name, kind, of.Name)
		default:
			return nil, cmdutil.NotFound("%s %s has no group %q", kind, of.Name, name)
		}
	}
	if len(groups) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(groups))), nil
	}
	open = slices.DeleteFunc(open, func(name string) bool { return given[name] != "" })
	if !all && len(open) > 1 {
		return nil, cmdutil.Usage("several groups of %s %s are waiting for approval: name them with --group, or use --all: %s", kind, of.Name, strings.Join(open, ", "))
	}
	return open, nil
}

// createApprovals creates the approvals of groups that have none.
func (s *subject) createApprovals(ctx context.Context, groups []string, given map[string]string) error {
	status := &s.fleet.Status
	if len(groups) == 0 {
		s.printf("has no group that is waiting for approval of revision %s", status.Revision)
		return nil
	}
	user, err := s.hub.User(ctx, s.client)
	if err != nil {
		return fmt.Errorf("asking the hub for your name: %w", err)
	}
	for _, group := range groups {
		if by := given[group]; by != "" {
			s.printf("group %s is already approved for revision %s (rollout %d), by %s", group, status.Revision, status.Rollout, cmdutil.Printable(by))
			continue
		}
		created := newApproval(s.fleet, group, user)
		if err := s.createApproval(ctx, created); err != nil {
			return err
		}
		s.printf("group %s is approved for revision %s (rollout %d, kubelet %s), by %s", group, status.Revision, status.Rollout,
			cmp.Or(s.fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet, "of the cluster"), user)
		if created.Name != "" {
			s.hub.Note("To withdraw it before the group starts: kubectl delete fleetapproval %s", created.Name)
		}
	}
	return nil
}

func (s *subject) createApproval(ctx context.Context, created *v1alpha1.FleetApproval) error {
	user := created.Spec.Approver
	if err := s.client.Create(ctx, created); apierrors.IsForbidden(err) {
		return cmdutil.Refusal("%s may not approve %s: ClusterRole %s is missing; an administrator can grant it with: kubectl create clusterrolebinding NAME --clusterrole=%s --user=%s (%v)",
			user, s.fullName(), v1alpha1.ApproverRole, v1alpha1.ApproverRole, user, err)
	} else if err != nil {
		return fmt.Errorf("approving group %s of %s: %w", created.Spec.Group, s.fullName(), err)
	}
	return nil
}

// newApproval is the approval of the rollout that a fleet's status shows. It goes away with the fleet.
func newApproval(of *v1alpha1.MachineFleet, group, user string) *v1alpha1.FleetApproval {
	return &v1alpha1.FleetApproval{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: of.Name + "-" + group + "-",
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "MachineFleet", Name: of.Name, UID: of.UID,
			}},
		},
		Spec: v1alpha1.FleetApprovalSpec{
			Fleet: of.Name, FleetUID: string(of.UID), Revision: of.Status.Revision, Rollout: of.Status.Rollout, Group: group, Approver: user,
		},
	}
}
