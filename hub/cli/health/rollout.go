package health

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	ocm "open-cluster-management.io/api/cluster/v1alpha1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// longestUnhealthy is how long a cluster whose Machines have a revision may keep a rollout waiting where no progressDeadline says it. If it
// keeps getting unhealthy in its soak, the time counts from when the first soak was to end.
const longestUnhealthy = time.Hour

// findUnhealthyCluster finds the cluster that has kept a fleet's rollout waiting the longest although its Machines are done: a condition of
// spec.healthConditions does not hold there. Where progressDeadline bounds that, the hub calls the cluster failed. It returns nil for none.
func (j *Judge) findUnhealthyCluster(s *subject, reason string) (found *judgement) {
	of, is := s.Object.(*v1alpha1.MachineFleet)
	if !is || hasDeadline(&of.Spec.RolloutStrategy) {
		return nil
	}
	for _, deployment := range j.deployments[of.Name] {
		since, until, relapsed := j.unhealthyTime(of, deployment)
		if since.IsZero() || until.Sub(since.Time) <= longestUnhealthy || found != nil && !since.Before(&found.since) {
			continue
		}
		waits := "the rollout still waits there"
		if relapsed {
			waits = "a condition of spec.healthConditions keeps failing there before minSuccessTime is over"
		}
		found = &judgement{Problem, ReasonTakesLong + ": " + reason, fmt.Sprintf("the Machines of %s have been done for %s, and %s: %s; "+
			"repair the cluster, or set progressDeadline in spec.rolloutStrategy to have it fail", deployment.Namespace, duration.HumanDuration(j.Now.Sub(since.Time)), waits, s.message), since}
	}
	return found
}

// unhealthyTime is since when and until when a cluster whose Machines are all done has not been healthy for good; zero if that is not so.
// relapsed: it was healthy when the first soak was to end, or later, and did not stay so.
func (j *Judge) unhealthyTime(of *v1alpha1.MachineFleet, deployment *v1alpha1.MachineDeployment) (since metav1.Time, until time.Time, relapsed bool) {
	ready := meta.FindStatusCondition(deployment.Status.Conditions, v1alpha1.ReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionTrue || deployment.Status.ObservedGeneration != deployment.Generation {
		return metav1.Time{}, time.Time{}, false
	}
	r := rollout.StartedRecord(of, deployment)
	since, until = metav1.NewTime(r.Since), j.Now
	relapsed = !r.SoakDue.IsZero() && r.SoakDue.Before(r.Since)
	switch {
	case relapsed && r.Phase == plan.Soaking:
		until = r.Since
		fallthrough
	case relapsed && r.Phase == plan.Progressing:
		since = metav1.NewTime(r.SoakDue)
	case r.Phase != plan.Progressing && r.Phase != plan.RollingBack:
		return metav1.Time{}, time.Time{}, false
	}
	if since.Before(&ready.LastTransitionTime) {
		since = ready.LastTransitionTime
	}
	return since, until, relapsed
}

// hasDeadline reports whether the strategy bounds how long a cluster may take.
func hasDeadline(strategy *ocm.RolloutStrategy) bool {
	deadline := ""
	switch {
	case strategy.All != nil:
		deadline = strategy.All.ProgressDeadline
	case strategy.Progressive != nil:
		deadline = strategy.Progressive.ProgressDeadline
	case strategy.ProgressivePerGroup != nil:
		deadline = strategy.ProgressivePerGroup.ProgressDeadline
	}
	return deadline != "" && deadline != "None"
}
