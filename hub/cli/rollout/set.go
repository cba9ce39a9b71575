package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// ViewSet is the rollout of a SimulatedClusterSet as that of a MachineFleet: both have the same fields with the same meanings.
func ViewSet(set *v1alpha1.SimulatedClusterSet) *v1alpha1.MachineFleet {
	spec, status := &set.Spec.Rollout, &set.Status.Rollout
	fleet := &v1alpha1.MachineFleet{ObjectMeta: set.ObjectMeta}
	fleet.Spec.Groups, fleet.Spec.Paused, fleet.Spec.RolloutStrategy, fleet.Spec.AbortedRevision = spec.Groups, spec.Paused, spec.RolloutStrategy, spec.AbortedRevision
	fleet.Status = v1alpha1.MachineFleetStatus{
		ObservedGeneration: set.Status.ObservedGeneration, Revision: status.Revision, Rollout: status.Rollout, AwaitingApproval: status.AwaitingApproval,
		CurrentWave: status.CurrentWave, Waves: status.Waves, Clusters: status.Clusters, Failures: status.Failures,
	}
	return fleet
}

// progressOfSet reads it from the status; a status that is older than the spec says nothing.
func progressOfSet(set *v1alpha1.SimulatedClusterSet) progress {
	progressing := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ProgressingCondition)
	if set.Status.ObservedGeneration != set.Generation || progressing == nil {
		return progress{text: notObserved}
	}
	counts, name := &set.Status.Rollout.Clusters, "simulatedclusterset "+set.Name
	updated := fmt.Sprintf("%d of %d clusters have %s", counts.Updated, counts.Selected, set.Status.Rollout.Revision)
	switch progressing.Reason {
	case v1alpha1.ReasonRolloutComplete:
		if counts.Failed > 0 {
			return progress{text: "has rolled out, but clusters failed", err: cmdutil.Timeout("%s has rolled out, but %d of %d clusters failed: %s", name, counts.Failed, counts.Selected, progressing.Message)}
		}
		return progress{text: "has rolled out: " + updated, done: true}
	case v1alpha1.ReasonTooManyFailures, v1alpha1.ReasonAborted:
		return progress{text: "has stopped", err: cmdutil.Timeout("%s has stopped: %s", name, progressing.Message)}
	case v1alpha1.ReasonPaused:
		return progress{text: "is paused, " + updated, err: cmdutil.Refusal("%s cannot roll out while it is paused: kubectl hollow rollout resume %s", name, name)}
	case v1alpha1.ReasonRollingOut:
		return progress{text: progressing.Message}
	}
	if progressing.Status == metav1.ConditionFalse {
		return progress{text: "is refused", err: cmdutil.Refusal("%s does not roll out: %s", name, progressing.Message)}
	}
	return progress{text: fmt.Sprintf("waits (%s), %s", progressing.Reason, updated), why: progressing.Message}
}

// setFacts are what to know of the rollout of a set.
func setFacts(set *v1alpha1.SimulatedClusterSet) []cmdutil.Fact {
	status := &set.Status.Rollout
	counts := &status.Clusters
	return []cmdutil.Fact{
		{Name: "Revision", Value: status.Revision},
		{Name: "Strategy", Value: string(set.Spec.Rollout.RolloutStrategy.Type)},
		{Name: "Paused", Value: fmt.Sprint(set.Spec.Rollout.Paused)},
		{Name: "Wave", Value: fmt.Sprintf("%d of %d", status.CurrentWave, status.Waves)},
		{Name: "Clusters", Value: fmt.Sprintf("%d: %d updated, %d soaking, %d progressing, %d waiting, %d failed, %d held, %d blocked",
			counts.Selected, counts.Updated, counts.Soaking, counts.Progressing, counts.Waiting, counts.Failed, counts.Held, counts.Blocked)},
	}
}

func (s *subject) followSet(ctx context.Context) error {
	last := ""
	return cmdutil.Until(ctx, s.client, &v1alpha1.SimulatedClusterSetList{}, client.ObjectKeyFromObject(s.set), s.set,
		func(set *v1alpha1.SimulatedClusterSet) (bool, error) {
			s.set = set
			now := progressOfSet(set)
			if line := now.progressLine(); line != last {
				s.printf("%s", line)
				last = line
			}
			return now.done, now.err
		})
}

// retrySet has the version started again where it has failed, by the current spec.rollout.
func (s *subject) retrySet(ctx context.Context, now time.Time) error {
	spec, status := &s.set.Spec.Rollout, &s.set.Status.Rollout
	if s.set.Status.ObservedGeneration != s.set.Generation {
		return cmdutil.Refusal("%s cannot be retried: the hub has not observed its current spec yet", s.fullName())
	}
	if spec.AbortedRevision != status.Revision && status.Clusters.Updated >= status.Clusters.Selected {
		return cmdutil.Refusal("%s cannot be retried: every cluster has %s", s.fullName(), status.Revision)
	}
	if err := s.changeObject(ctx, func() { spec.AbortedRevision, spec.RetriedAt = "", timeAfter(spec.RetriedAt, now) }); err != nil {
		return err
	}
	s.printf("retried: %s starts again in %s that failed; %d are waiting by the current spec", status.Revision, plural.Count(int(status.Clusters.Failed), "cluster"), status.Clusters.Waiting)
	return nil
}

// approveSet approves the current rollout of a set for groups.
func (s *subject) approveSet(ctx context.Context, groups []string, all bool) error {
	shown := func(set *v1alpha1.SimulatedClusterSet) bool {
		return set.Status.ObservedGeneration >= set.Generation && set.Status.Rollout.Rollout > 0
	}
	if !shown(s.set) {
		return cmdutil.Refusal("%s cannot be approved: the hub has not observed its current spec yet", s.fullName())
	}
	status := &s.set.Status.Rollout
	found, err := rollout.ListApprovals(ctx, s.client, s.set, status.Revision, status.Rollout)
	if err != nil && !apierrors.IsForbidden(err) {
		return err //nolint:wrapcheck // It says what was done.
	}
	given := map[string]string{}
	for _, approval := range found {
		given[approval.Spec.Group] = cmp.Or(given[approval.Spec.Group], approval.Spec.Approver)
	}
	chosen, err := chooseGroups(ViewSet(s.set), string(cmdutil.SimulatedSetKind), given, groups, all)
	if err != nil {
		return err
	}
	if len(chosen) == 0 {
		s.printf("has no group that is waiting for approval of %s", status.Revision)
		return nil
	}
	user, err := s.hub.User(ctx, s.client)
	if err != nil {
		return fmt.Errorf("asking the hub for your name: %w", err)
	}
	for _, group := range slices.DeleteFunc(chosen, func(group string) bool { return given[group] != "" }) {
		approval := newApproval(ViewSet(s.set), group, user)
		approval.OwnerReferences[0].Kind, approval.Spec.Kind = string(v1alpha1.ApprovedSet), v1alpha1.ApprovedSet
		if err := s.createApproval(ctx, approval); err != nil {
			return err
		}
		s.printf("group %s is approved for %s (rollout %d), by %s", group, status.Revision, status.Rollout, user)
	}
	return nil
}
