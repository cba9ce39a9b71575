package rollout

import (
	"context"
	"errors"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/reader"
)

// clusterState is how far one cluster of a fleet is.
type clusterState struct {
	name  string
	phase plan.Phase
	// text is made of fixed words and counts: it may be written to a terminal as it is.
	text           string
	updated, total int64
}

// display shows how a fleet's rollout goes.
type display interface {
	// fleet is called with each state of the fleet, and cluster with each state of a cluster in which its revision has started.
	showFleet(*v1alpha1.MachineFleet, progress)
	showCluster(clusterState)
	// close leaves what is shown as it is.
	closeDisplay()
}

// followFleet shows the fleet and its clusters until the rollout is complete or has failed.
func (s *subject) followFleet(ctx context.Context) error {
	display := s.newDisplay()
	defer display.closeDisplay()
	ctx, cancel := context.WithCancel(ctx)
	clusters := make(chan error, 1)
	var mu sync.Mutex // It guards display and s.fleet.
	defer func() {
		cancel()
		if err := <-clusters; !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			s.hub.Note("The MachineDeployments of %s could not be followed: %v", s.fullName(), err)
		}
	}()
	go func() {
		key := client.ObjectKey{Name: s.fleet.Name} // All MachineDeployments of a fleet have its name.
		clusters <- cmdutil.Each(ctx, s.client, &v1alpha1.MachineDeploymentList{}, key, &v1alpha1.MachineDeployment{},
			func(deployment *v1alpha1.MachineDeployment) {
				mu.Lock()
				defer mu.Unlock()
				if state, begun := stateOf(s.fleet, deployment); begun {
					display.showCluster(state)
				}
			})
	}()
	return cmdutil.Until(ctx, s.client, &v1alpha1.MachineFleetList{}, client.ObjectKeyFromObject(s.fleet), s.fleet,
		func(fleet *v1alpha1.MachineFleet) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			s.fleet = fleet
			now := progressOfFleet(fleet)
			display.showFleet(fleet, now)
			return now.done, now.err
		})
}

// stateOf reads how far a cluster is with the revision that the fleet has now; started is false if it has not started there.
func stateOf(of *v1alpha1.MachineFleet, deployment *v1alpha1.MachineDeployment) (state clusterState, begun bool) {
	phase := reader.PhaseOf(of, deployment)
	if phase == plan.ToApply {
		return clusterState{}, false
	}
	state = clusterState{name: deployment.Namespace, phase: phase, total: 1}
	if deployment.Status.ObservedGeneration >= deployment.Generation { // Or they are Machines of an earlier template.
		state.updated = int64(deployment.Status.UpdatedReplicas)
	}
	if deployment.Spec.Replicas != nil {
		state.total = int64(*deployment.Spec.Replicas)
	}
	switch phase {
	case plan.ToApply:
	case plan.Soaking:
		state.text = "soaking"
	case plan.Succeeded:
		state.text = "updated"
	case plan.Failed:
		state.text = "failed"
	case plan.TimedOut:
		state.text = "timed out"
	case plan.RolledBack:
		state.text = "rolled back"
	case plan.RollbackFailed:
		state.text = "rollback failed"
	case plan.RollingBack:
		state.text = "rolling back, " + progressOf(deployment).text
	case plan.Progressing:
		state.text = progressOf(deployment).text
	}
	return state, true
}

// lines is a display that prints a line for each change.
type lines struct {
	subject  *subject
	last     string
	clusters map[string]string
}

func (l *lines) showFleet(_ *v1alpha1.MachineFleet, now progress) {
	if line := now.progressLine(); line != l.last {
		l.subject.printf("%s", line)
		l.last = line
	}
}

func (l *lines) showCluster(state clusterState) {
	if l.clusters[state.name] != state.text {
		l.subject.hub.Say("  %s: %s", state.name, state.text)
		l.clusters[state.name] = state.text
	}
}

func (l *lines) closeDisplay() {}
