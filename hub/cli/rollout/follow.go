package rollout

import (
	"context"
	"fmt"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/follow"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// followFleet prints the steps of the fleet and its clusters until the rollout is complete or has failed.
func (s *subject) followFleet(ctx context.Context) error {
	return follow.InLines(ctx, s.hub, s.client, follow.Whole[*v1alpha1.MachineFleet]{
		List: &v1alpha1.MachineFleetList{}, Known: s.fleet,
		See: func(fleet *v1alpha1.MachineFleet) (follow.State, bool, error) {
			s.fleet = fleet
			now := progressOfFleet(fleet)
			return s.fleetState(now), now.done, now.err
		},
	}, follow.Parts[*v1alpha1.MachineDeployment]{
		List: &v1alpha1.MachineDeploymentList{}, Example: &v1alpha1.MachineDeployment{},
		See: func(deployment *v1alpha1.MachineDeployment) (follow.State, bool) {
			return clusterState(s.fleet, deployment)
		},
		Count: func() int32 { return s.fleet.Status.Clusters.Selected },
	})
}

// fleetState is how the fleet is.
func (s *subject) fleetState(now progress) follow.State {
	counts := &s.fleet.Status.Clusters
	text := fmt.Sprintf("%d of %d updated", counts.Updated, totalClusters(counts))
	if s.fleet.Status.Waves > 0 {
		text = fmt.Sprintf("wave %d of %d, %s", s.fleet.Status.CurrentWave, s.fleet.Status.Waves, text)
	}
	for _, part := range []struct {
		count int32
		what  string
	}{{counts.Held, "held"}, {counts.Failed, "failed"}, {counts.RollingBack, "rolling back"}, {counts.RolledBack, "rolled back"}, {counts.Blocked, "blocked"}} {
		if part.count > 0 {
			text += fmt.Sprintf(", %d %s", part.count, part.what)
		}
	}
	return follow.State{
		Line: s.lineOf("%s", now.progressLine()), Text: text, Current: int64(counts.Updated), Total: int64(totalClusters(counts)), Ended: now.done,
	}
}

// clusterTexts are the phases whose text is always the same.
var clusterTexts = map[plan.Phase]string{
	plan.Soaking: "soaking", plan.Succeeded: "updated", plan.Failed: "failed", plan.TimedOut: "timed out", plan.RolledBack: "rolled back",
	plan.RollbackFailed: "rollback failed",
}

// clusterState is how far a cluster is with the revision that the fleet has now; started is false if it has not started there.
func clusterState(of *v1alpha1.MachineFleet, deployment *v1alpha1.MachineDeployment) (state follow.State, started bool) {
	phase := rollout.PhaseOf(of, deployment)
	if phase == plan.ToApply {
		return follow.State{}, false
	}
	succeeded := phase == plan.Succeeded
	state = follow.State{Text: clusterTexts[phase], Total: 1, Ended: succeeded, WasEnded: succeeded}
	if deployment.Status.ObservedGeneration >= deployment.Generation { // Or they are Machines of an earlier template.
		state.Current = int64(deployment.Status.UpdatedReplicas)
	}
	if deployment.Spec.Replicas != nil {
		state.Total = int64(*deployment.Spec.Replicas)
	}
	if state.Text == "" {
		state.Text = progressOf(deployment).text
	}
	if phase == plan.RollingBack {
		state.Text = "rolling back, " + state.Text
	}
	state.Line = fmt.Sprintf("  %s: %s", deployment.Namespace, state.Text)
	return state, true
}
