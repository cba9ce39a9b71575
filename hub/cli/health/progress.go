package health

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// bounded are the reasons for which an object may be not ready for a while, and unbounded those that end by themselves: a
// rollout has its own deadline, which makes it Stalled, or is judged by findUnhealthyCluster. What is in neither list is a problem.
var (
	bounded = []string{
		v1alpha1.ReasonScalingUp, v1alpha1.ReasonScalingDown, v1alpha1.ReasonMinimumReplicasUnavailable,
	}
	unbounded = []string{v1alpha1.ReasonRollingOut, v1alpha1.ReasonRollingBack, v1alpha1.ReasonDeleting}
	waiting   = []string{
		v1alpha1.ReasonAwaitingApproval, v1alpha1.ReasonOutsideMaintenanceWindow, v1alpha1.ReasonAwaitingRequest, v1alpha1.ReasonAwaitingSurge,
		v1alpha1.ReasonAwaitingControlPlane,
	}
)

// checkProgress judges what is not ready, by how far it is.
func checkProgress(j *Judge, s *subject) *judgement {
	switch s.kind {
	case MachineClass:
		return j.judgeClass(s)
	case FleetApproval:
		return nil
	case NodeDisruption, NodeDisruptionRun, LoadTest, LoadTestRun:
		return j.judgePhase(s)
	}
	ready := meta.FindStatusCondition(s.conditions, v1alpha1.ReadyCondition)
	switch {
	case s.kind == Machine:
		return j.judgeMachine(s, ready)
	case ready.Status == metav1.ConditionTrue && s.left != "":
		return &judgement{Waiting, ReasonOrphans, s.left, s.GetCreationTimestamp()}
	case ready.Status == metav1.ConditionTrue:
		return nil
	}
	return j.judgeUnready(s, ready)
}

// judgeUnready judges what is not ready by the reason that it gives.
func (j *Judge) judgeUnready(s *subject, ready *metav1.Condition) *judgement {
	switch s.kind {
	case Cluster:
		return judgementFrom(Problem, ready)
	case SimulatedCluster:
		return j.boundWaiting(longestScaling, judgementFrom(InProgress, ready))
	}
	reason := ready.Reason
	if progressing := meta.FindStatusCondition(s.conditions, v1alpha1.ProgressingCondition); progressing != nil && progressing.Status == metav1.ConditionFalse {
		return judgementFrom(Problem, progressing)
	}
	switch {
	case slices.Contains(waiting, reason):
		return judgementFrom(Waiting, ready)
	case slices.Contains(unbounded, reason):
		if found := j.findUnhealthyCluster(s, reason); found != nil {
			return found
		}
		return judgementFrom(InProgress, ready)
	case slices.Contains(bounded, reason), s.kind == SimulatedClusterSet:
		return j.boundWaiting(longestScaling, judgementFrom(InProgress, ready))
	}
	return judgementFrom(Problem, ready)
}

// boundWaiting makes a problem of what takes longer than limit.
func (j *Judge) boundWaiting(limit time.Duration, found *judgement) *judgement {
	if age := j.Now.Sub(found.since.Time); age > limit {
		found.state, found.reason = Problem, ReasonTakesLong+": "+found.reason
		found.message = fmt.Sprintf("for %s: %s", duration.HumanDuration(age), found.message)
	}
	return found
}

func (j *Judge) judgeMachine(s *subject, ready *metav1.Condition) *judgement {
	switch v1alpha1.MachinePhase(s.phase) {
	case v1alpha1.MachinePending, v1alpha1.MachineProvisioning, v1alpha1.MachineUpdating:
		return j.boundWaiting(longestStart, judgementFrom(InProgress, ready))
	case v1alpha1.MachineRunning:
		if ready.Status == metav1.ConditionTrue {
			return judgeRunning(s)
		}
	case v1alpha1.MachineUnknown, v1alpha1.MachineFailed, v1alpha1.MachineTerminating:
		// One that is failed or in deletion was judged before.
	}
	return judgementFrom(Problem, ready)
}

// judgeRunning finds what a Machine that is ready is about to be.
func judgeRunning(s *subject) *judgement {
	if updated := meta.FindStatusCondition(s.conditions, v1alpha1.MachineUpdatedCondition); updated != nil && updated.Status != metav1.ConditionTrue {
		return judgementFrom(InProgress, updated)
	}
	if schedulable := meta.FindStatusCondition(s.conditions, v1alpha1.MachineSchedulableCondition); schedulable != nil && schedulable.Status != metav1.ConditionTrue {
		return judgementFrom(Waiting, schedulable)
	}
	return nil
}
