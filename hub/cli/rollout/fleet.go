package rollout

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// progressOfFleet reads it from the status; a status that is older than the spec says nothing.
func progressOfFleet(fleet *v1alpha1.MachineFleet) progress {
	status := &fleet.Status
	progressing := meta.FindStatusCondition(status.Conditions, v1alpha1.ProgressingCondition)
	if status.ObservedGeneration != fleet.Generation || progressing == nil {
		return progress{text: notObserved}
	}
	counts := &status.Clusters
	if ended := endOfFleet(fleet, progressing); ended != nil {
		return *ended
	}
	if refused := refusalOf("machinefleet "+fleet.Name, status.Conditions); refused != nil {
		return progress{text: "is stalled", err: refused}
	}
	frozen := meta.FindStatusCondition(status.Conditions, v1alpha1.FrozenCondition)
	switch {
	case progressing.Reason == v1alpha1.ReasonRolloutComplete:
		return progress{text: fmt.Sprintf("has rolled out: %d of %d clusters updated", counts.Updated, totalClusters(counts)), done: true}
	case frozen != nil && frozen.Status == metav1.ConditionTrue:
		return progress{text: fmt.Sprintf("is frozen (%s), %d of %d clusters updated", frozen.Reason, counts.Updated, totalClusters(counts)), why: frozen.Message}
	case progressing.Reason == v1alpha1.ReasonRollingOut, progressing.Reason == v1alpha1.ReasonRollingBack:
		return progress{text: progressing.Message}
	}
	return progress{text: fmt.Sprintf("waits (%s), %d of %d clusters updated", progressing.Reason, counts.Updated, totalClusters(counts)), why: progressing.Message}
}

// endOfFleet is the end of a rollout that has failed, or that a user has to help; nil for none.
func endOfFleet(fleet *v1alpha1.MachineFleet, progressing *metav1.Condition) *progress {
	status, counts := &fleet.Status, &fleet.Status.Clusters
	switch {
	case progressing.Reason == v1alpha1.ReasonRolloutComplete && counts.Failed > 0:
		text := fmt.Sprintf("has rolled out, but %d of %d clusters failed", counts.Failed, totalClusters(counts))
		return &progress{text: text, err: cmdutil.Timeout("machinefleet %s %s: %s", fleet.Name, text, status.Message)}
	case progressing.Reason == v1alpha1.ReasonTooManyFailures:
		return &progress{text: "has stopped", err: cmdutil.Timeout("machinefleet %s has stopped: %s", fleet.Name, progressing.Message)}
	case progressing.Reason == v1alpha1.ReasonAborted:
		return &progress{text: "is aborted", err: cmdutil.Timeout("machinefleet %s is aborted: %s", fleet.Name, progressing.Message)}
	case progressing.Reason == v1alpha1.ReasonRolledBack:
		return &progress{text: "was rolled back", err: cmdutil.Timeout("machinefleet %s was rolled back: %s", fleet.Name, progressing.Message)}
	case progressing.Status == metav1.ConditionFalse, progressing.Reason == v1alpha1.ReasonNoClusterSelected:
		return &progress{text: "is refused", err: cmdutil.Refusal("machinefleet %s does not roll out: %s", fleet.Name, progressing.Message)}
	case progressing.Reason == v1alpha1.ReasonPaused:
		return &progress{text: fmt.Sprintf("is paused, %d of %d clusters updated", counts.Updated, totalClusters(counts)), err: cmdutil.Refusal(
			"machinefleet %s cannot roll out while it is paused: kubectl hollow rollout resume machinefleet %s", fleet.Name, fleet.Name)}
	}
	return nil
}

// fleetFacts are what to know of a fleet.
func fleetFacts(fleet *v1alpha1.MachineFleet) []cmdutil.Fact {
	spec, status := &fleet.Spec, &fleet.Status
	counts := &status.Clusters
	return []cmdutil.Fact{
		{Name: "Revision", Value: status.Revision},
		{Name: "Strategy", Value: string(spec.RolloutStrategy.Type)},
		{Name: "Kubelet", Value: spec.Template.Spec.Template.Spec.Versions.Kubelet},
		{Name: "Paused", Value: fmt.Sprint(spec.Paused)},
		{Name: "Wave", Value: fmt.Sprintf("%d of %d", status.CurrentWave, status.Waves)},
		{Name: "Clusters", Value: fmt.Sprintf("%d: %d updated, %d soaking, %d progressing, %d waiting, %d failed, %d rolling back, %d rolled back, %d held, %d blocked",
			counts.Selected, counts.Updated, counts.Soaking, counts.Progressing, counts.Waiting, counts.Failed, counts.RollingBack, counts.RolledBack,
			counts.Held, counts.Blocked)},
	}
}
