package machinedeployment

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// startGrace is how long a hub that has just started declares no rollout late: while none ran, none could continue.
const startGrace = time.Minute

// The clock of the progress deadline is the lastTransitionTime of the condition Progressing, so that it survives
// the hub. While a rollout runs (reason RollingOut), it is the time of the last progress, as lastUpdateTime is in
// apps/v1; when the deployment thaws, it moves on by the time that it was frozen, which the condition Frozen tells;
// when the rollout continues after a pause, or gets surge that others had, it starts over. With the other reasons it is the
// time of the transition.
func (c *Controller) progressingCondition(s *scope, before *v1alpha1.MachineDeploymentStatus, now time.Time) metav1.Condition {
	condition := currentProgress(s, before)
	if s.overlap != "" {
		condition = metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSelectorOverlap, Message: s.overlap}
	}
	condition.Message = s.withLeftBehind(condition.Message)
	condition.Type, condition.ObservedGeneration = v1alpha1.ProgressingCondition, s.deployment.Generation
	condition.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	// A status that waits to be written may have to tell of progress that an earlier reconciliation saw.
	progressed := c.milestones.recordProgress(s, now)
	seen := metav1.NewTime(progressed.Truncate(time.Second))
	old := meta.FindStatusCondition(before.Conditions, v1alpha1.ProgressingCondition)
	switch {
	case old == nil:
	case condition.Reason != v1alpha1.ReasonRollingOut:
		if old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
	case progressed.Equal(now):
	case old.Reason == v1alpha1.ReasonProgressDeadlineExceeded:
		if !old.LastTransitionTime.Before(&seen) {
			return keepLate(condition, *old.DeepCopy())
		}
		condition.LastTransitionTime = seen
	case old.Reason == v1alpha1.ReasonRollingOut:
		since := old.LastTransitionTime
		if since.Before(&seen) {
			since = seen
		}
		condition.LastTransitionTime = addFrozenTime(s, before, since, condition.LastTransitionTime)
	}
	return condition
}

// keepLate keeps a rollout that was late and has made no progress since as it is.
func keepLate(condition, old metav1.Condition) metav1.Condition {
	condition.Status, condition.Reason, condition.LastTransitionTime = old.Status, old.Reason, old.LastTransitionTime
	return condition
}

// addFrozenTime is the clock that showed old, moved on by the time that was frozen.
func addFrozenTime(s *scope, before *v1alpha1.MachineDeploymentStatus, old, now metav1.Time) metav1.Time {
	frozen := meta.FindStatusCondition(before.Conditions, v1alpha1.FrozenCondition)
	if s.frozen.Frozen || frozen == nil || frozen.Status != metav1.ConditionTrue {
		return old
	}
	since := frozen.LastTransitionTime
	if since.Before(&old) {
		since = old
	}
	return metav1.NewTime(old.Add(now.Sub(since.Time)))
}

// updateProgressing turns condition False when the rollout is late, and returns the time until it would be.
func (c *Controller) updateProgressing(s *scope, condition *metav1.Condition, now time.Time) time.Duration {
	limit := s.deployment.Spec.ProgressDeadlineSeconds
	if condition.Reason != v1alpha1.ReasonRollingOut || s.frozen.Frozen || limit == nil {
		return 0
	}
	deadline := condition.LastTransitionTime.Add(time.Duration(*limit) * time.Second)
	if grace := c.started.Add(startGrace); deadline.Before(grace) {
		deadline = grace
	}
	if left := deadline.Sub(now); left > 0 {
		return left
	}
	condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded
	condition.Message = fmt.Sprintf("no progress for %s: %s", time.Duration(*limit)*time.Second, condition.Message)
	condition.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	return 0
}

// currentProgress says where the rollout stands, apart from the time that it takes.
func currentProgress(s *scope, before *v1alpha1.MachineDeploymentStatus) metav1.Condition {
	status, want := &s.deployment.Status, int32(replicasOf(s.deployment))
	condition := metav1.Condition{Status: metav1.ConditionTrue}
	old := meta.FindStatusCondition(before.Conditions, v1alpha1.ProgressingCondition)
	allUpdated := s.allUpdated()
	switch {
	case allUpdated && status.Replicas == want && status.AvailableReplicas >= want,
		// A Machine that is lost or added later is no rollout.
		allUpdated && old != nil && old.Reason == v1alpha1.ReasonNewMachineSetAvailable && !s.renumbered && !s.heldBack():
		condition.Reason = v1alpha1.ReasonNewMachineSetAvailable
	case s.deployment.Spec.Paused:
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonPaused
		condition.Message = "spec.paused is set: no machine is replaced until it is unset"
		if refused := s.describeRefused(); refused != "" {
			condition.Message += ". After that it would not continue either: " + refused
		}
	case s.heldBack():
		setHeldBack(s, &condition)
	case byRequest(s.deployment) && status.Replicas == want && status.AvailableReplicas >= want:
		condition.Reason = v1alpha1.ReasonAwaitingRequest
		condition.Message = describeStanding(s) + ": " + describeRequest(s.deployment)
	case len(s.heldBy) > 0:
		condition.Reason = v1alpha1.ReasonAwaitingSurge
		condition.Message = fmt.Sprintf("%s: surge group %s is used up by MachineDeployment %s, which this one is waiting for",
			describeStanding(s), s.deployment.Spec.Strategy.SurgeGroup(), reconciler.ListFew(s.heldBy))
	default:
		condition.Reason = v1alpha1.ReasonRollingOut
		condition.Message = describeStanding(s)
	}
	return condition
}

// setHeldBack says of a template that the API server does not support whether a user has to act, or its upgrade is on its way.
func setHeldBack(s *scope, condition *metav1.Condition) {
	if s.upcoming != "" && s.config.missing == "" {
		condition.Reason = v1alpha1.ReasonAwaitingControlPlane
		condition.Message = fmt.Sprintf("%s, and others get it when the control plane of the cluster, which is to have %s, has reported it: %s",
			describeStanding(s), s.upcoming, s.describeRefusal(s.deployment.Spec.Template))
		return
	}
	condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonUnsupportedKubeletVersion
	if s.config.missing != "" {
		condition.Reason = v1alpha1.ReasonConfigSourceUnavailable
	}
	condition.Message = describeStanding(s) + ", and no others will get it: " + s.describeRefused()
}

// describeRefused says why no Machine gets the current template, and what a user can do; empty if Machines get it.
func (s *scope) describeRefused() string {
	problem := s.describeRefusal(s.deployment.Spec.Template)
	switch {
	case s.config.missing != "":
		return s.describeRefusedConfig()
	case problem == "":
		return ""
	case s.upcoming != "":
		return fmt.Sprintf("spec.template.spec.versions.kubelet: %s until its control plane has %s, which it is to have", problem, s.upcoming)
	}
	return fmt.Sprintf("spec.template.spec.versions.kubelet: %s: use another version, or allow it with the annotation %s=true in spec.template.metadata.annotations",
		problem, v1alpha1.AllowKubeletVersionSkewAnnotation)
}

// heldBack reports whether there would be more Machines of the current template if it were not refused.
func (s *scope) heldBack() bool {
	have := 0
	if s.current != nil {
		have = setReplicas(s.current)
	}
	return have < replicasOf(s.deployment) && s.describeRefused() != ""
}

// describeStanding counts, and names what the rollout cannot get past: Machines of the current template that failed, and those
// whose update in place did.
func describeStanding(s *scope) string {
	text := fmt.Sprintf("%d of %d machines have the current template", s.countUpdated(), replicasOf(s.deployment))
	if s.current == nil {
		return text
	}
	text += describeFailures(s.machines[s.current.UID].failed) + s.describeRefusing()
	if other := s.machines[s.current.UID].otherKubelet; len(other) > 0 {
		text += "; the Node reports a kubelet version other than the requested one: " + reconciler.ListFew(slices.Sorted(slices.Values(other)))
	}
	var failed []string
	for _, machine := range s.machines[s.current.UID].facts {
		if machine.Update == v1alpha1.ReasonUpdateFailed && !machine.Deleting {
			failed = append(failed, machine.Name)
		}
	}
	if len(failed) == 0 {
		return text
	}
	return fmt.Sprintf("%s; the update failed of %s: their condition Updated says why", text, reconciler.ListFew(slices.Sorted(slices.Values(failed))))
}

// noteTroubles takes in what a rollout cannot get past with one Machine that is not being deleted.
func (m *members) noteTroubles(machine *v1alpha1.Machine, state machines.State) {
	if state.Deleting {
		return
	}
	config := machine.Status.ConfigSource
	switch {
	case state.Failed:
		m.failed = append(m.failed, machines.Failure{Machine: machine.Name, Reason: machine.Status.ErrorReason, Message: machine.Status.ErrorMessage})
	case config != nil && config.Error != "":
		m.refusing = append(m.refusing, machines.Failure{Machine: machine.Name, Message: config.Error})
	}
	if state.Update == "" && machines.OtherKubelet(machine) != "" {
		m.otherKubelet = append(m.otherKubelet, machine.Name)
	}
}

// describeFailures tells how many Machines failed, and why the first of them did: mostly it is the same with all.
func describeFailures(failed []machines.Failure) string {
	if len(failed) == 0 {
		return ""
	}
	first := slices.MinFunc(failed, func(a, b machines.Failure) int { return cmp.Compare(a.Machine, b.Machine) })
	return fmt.Sprintf("; %d failed, %s for the reason %s: %s", len(failed), first.Machine, first.Reason, first.Message)
}

// byRequest reports whether users choose the next Machine.
func byRequest(deployment *v1alpha1.MachineDeployment) bool { return describeRequest(deployment) != "" }

// describeRequest is what a user does to let the rollout continue; empty if it does so by itself.
func describeRequest(deployment *v1alpha1.MachineDeployment) string {
	strategy := deployment.Spec.Strategy
	switch {
	case strategy.Type == v1alpha1.OnDelete:
		return "the others are replaced when a user deletes them"
	case strategy.Type == v1alpha1.InPlace && strategy.InPlace != nil && strategy.InPlace.Trigger == v1alpha1.InPlaceManual:
		return fmt.Sprintf("the others are updated when they have the label %s=true", v1alpha1.UpdateInPlaceLabel)
	}
	return ""
}

// putCondition stores condition as it is.
func putCondition(list *[]metav1.Condition, condition metav1.Condition) {
	if stored := meta.FindStatusCondition(*list, condition.Type); stored != nil {
		*stored = condition
		return
	}
	*list = append(*list, condition)
}
