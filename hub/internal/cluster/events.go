package cluster

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func namespaceCreatedEvent(name string) reconciler.Event {
	return reconciler.NormalEvent("NamespaceCreated", "Accept", fmt.Sprintf("Created namespace %s", name))
}

func accessRevokedEvent(cluster *v1alpha1.Cluster, namespace namespaceState) reconciler.Event {
	why := "spec.acceptance was changed to " + string(cluster.Spec.Acceptance) + "; its namespace, Machines and Nodes stay"
	switch {
	case cluster.DeletionTimestamp != nil:
		why = "it is being removed; its namespace, Machines and Nodes stay"
	case cluster.Spec.Acceptance == v1alpha1.AcceptanceDenied:
		why = "it is denied; its namespace, Machines and Nodes stay"
	case namespace == namespaceDeleting:
		why = "its namespace is being deleted; its Nodes stay"
	case namespace == namespaceForeign:
		why = "its namespace no longer has the labels by which the hub recognizes it"
	case cluster.Accepted():
		why = "its namespace is gone; its Nodes stay"
	}
	return reconciler.NormalEvent("AccessRevoked", "Revoke", fmt.Sprintf("Revoked the access of the agent of cluster %s to the hub: %s", cluster.Name, why))
}

// told are the conditions whose turns are worth an event, with the status that is worth a warning.
var told = []struct {
	condition string
	warn      metav1.ConditionStatus
}{
	{v1alpha1.ClusterAcceptedCondition, metav1.ConditionFalse},
	{v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionUnknown},
	{v1alpha1.FrozenCondition, metav1.ConditionTrue},
}

// turnEvents are the events of conditions that turned. A condition that appears in the state in which every
// cluster starts tells nothing.
func turnEvents(before, after []metav1.Condition) []reconciler.Event {
	var turned []reconciler.Event
	for _, row := range told {
		old, now := meta.FindStatusCondition(before, row.condition), meta.FindStatusCondition(after, row.condition)
		if now == nil || old != nil && old.Status == now.Status && old.Reason == now.Reason {
			continue
		}
		switch now.Reason {
		case v1alpha1.ReasonNeverSeen, v1alpha1.ReasonAwaitingAcceptance, v1alpha1.ReasonPending:
			continue
		}
		if old == nil && now.Reason == v1alpha1.ReasonNotFrozen {
			continue
		}
		if slices.ContainsFunc(turned, func(other reconciler.Event) bool { return other.Reason == now.Reason }) {
			continue // It follows from a condition above, for the same reason.
		}
		kind := corev1.EventTypeNormal
		if now.Status == row.warn && !isFirstFreeze(old, now, after) {
			kind = corev1.EventTypeWarning
		}
		note := fmt.Sprintf("%s is %s", now.Type, now.Status)
		if now.Message != "" {
			note += ": " + now.Message
		}
		turned = append(turned, reconciler.Event{Type: kind, Reason: now.Reason, Action: "Observe", Note: note})
	}
	return turned
}

// isFirstFreeze reports whether frozen is the freeze with which every agent starts: it proves both API servers and compares its
// caches with them. It ends within seconds, and is no fault.
func isFirstFreeze(before, frozen *metav1.Condition, list []metav1.Condition) bool {
	switch frozen.Reason {
	case v1alpha1.ReasonHubUnchecked:
		// An agent that has just joined compares the hub too. One that was at work and does so again has lost the hub before.
		return before == nil || before.Status == metav1.ConditionTrue
	case v1alpha1.ReasonStarting, v1alpha1.ReasonRelisting:
		return true
	case v1alpha1.ReasonTargetUnreachable:
		target := meta.FindStatusCondition(list, v1alpha1.ClusterTargetReachableCondition)
		return target != nil && target.Status == metav1.ConditionUnknown && target.Reason == v1alpha1.ReasonStarting
	}
	return false
}

// skewEvent is the event of a clock skew that changed and is too great.
func skewEvent(before, after *metav1.Duration) (reconciler.Event, bool) {
	if after == nil || after.Duration.Abs() <= warnSkew || before != nil && *before == *after {
		return reconciler.Event{}, false
	}
	direction := "ahead of"
	if after.Duration < 0 {
		direction = "behind"
	}
	return reconciler.WarningEvent("ClockSkew", "Observe", fmt.Sprintf(
		"The clock of the agent is %s %s the hub's: set it, or certificates and tokens start and end at the wrong time",
		after.Duration.Abs(), direction)), true
}

// orphansEvent is the event of orphans that have become more.
func orphansEvent(before, after *v1alpha1.Orphans) (reconciler.Event, bool) {
	if after == nil {
		return reconciler.Event{}, false
	}
	if before == nil {
		before = &v1alpha1.Orphans{}
	}
	if after.Instances <= before.Instances && after.Nodes <= before.Nodes && after.CertificateRequests <= before.CertificateRequests {
		return reconciler.Event{}, false
	}
	return reconciler.WarningEvent("OrphansFound", "Observe", fmt.Sprintf(
		"The workload cluster has %d instances, %d nodes and certificate requests of %d nodes without a Machine on the hub, which are left unchanged: %s",
		after.Instances, after.Nodes, after.CertificateRequests, reconciler.ListFew(after.Names))), true
}

// emitEvents sends the events of a change of status.
func (c *Controller) emitEvents(before *v1alpha1.ClusterStatus, cluster *v1alpha1.Cluster) {
	if skewed, told := skewEvent(before.ClockSkew, cluster.Status.ClockSkew); told {
		skewed.Send(c.Recorder, cluster)
	}
	for _, turned := range turnEvents(before.Conditions, cluster.Status.Conditions) {
		turned.Send(c.Recorder, cluster)
	}
}
