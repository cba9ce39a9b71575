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
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/reader"
)

// longestUnhealthy is how long a cluster whose Machines have a revision may keep a rollout waiting where no progressDeadline says it.
const longestUnhealthy = time.Hour

// findUnhealthyCluster finds the cluster that has kept a fleet's rollout waiting the longest although its Machines are done: a condition of
// spec.healthConditions does not hold there. Where progressDeadline bounds that, the hub calls the cluster failed. It returns nil for none.
func (j *Judge) findUnhealthyCluster(s *subject, reason string) (found *judgement) {
	of, is := s.Object.(*v1alpha1.MachineFleet)
	if !is || hasDeadline(&of.Spec.RolloutStrategy) {
		return nil
	}
	for _, deployment := range j.deployments[of.Name] {
		since := unhealthySince(of, deployment)
		age := j.Now.Sub(since.Time)
		if since.IsZero() || age <= longestUnhealthy || found != nil && !since.Before(&found.since) {
			continue
		}
		found = &judgement{Problem, ReasonTakesLong + ": " + reason, fmt.Sprintf("the Machines of %s have been done for %s, and the rollout still waits there: %s; "+
			"repair the cluster, or set progressDeadline in spec.rolloutStrategy to have it fail", deployment.Namespace, duration.HumanDuration(age), s.message), since}
	}
	return found
}

// unhealthySince is since when a cluster has been in progress with Machines that are all done; zero if it is not.
func unhealthySince(of *v1alpha1.MachineFleet, deployment *v1alpha1.MachineDeployment) metav1.Time {
	ready := meta.FindStatusCondition(deployment.Status.Conditions, v1alpha1.ReadyCondition)
	phase, since := reader.PhaseOf(of, deployment), metav1.NewTime(reader.InPhaseSince(of, deployment))
	switch {
	case phase != plan.Progressing && phase != plan.RollingBack, since.IsZero():
		return metav1.Time{}
	case ready == nil || ready.Status != metav1.ConditionTrue || deployment.Status.ObservedGeneration != deployment.Generation:
		return metav1.Time{}
	case since.Before(&ready.LastTransitionTime):
		return ready.LastTransitionTime
	}
	return since
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
