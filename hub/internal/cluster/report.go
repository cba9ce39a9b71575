package cluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/plural"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// countMachines counts the cluster's Machines.
func (c *Controller) countMachines(ctx context.Context, cluster *v1alpha1.Cluster, now time.Time) (*v1alpha1.MachineCounts, error) {
	list := &v1alpha1.MachineList{}
	if err := c.Client.List(ctx, list, client.InNamespace(cluster.Name), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	var counts machines.Counts
	for i := range list.Items {
		counts.Add(machines.Of(&list.Items[i], 0, now))
	}
	return &v1alpha1.MachineCounts{Total: int32(counts.Total), Ready: int32(counts.Ready), Failed: int32(counts.Failed)}, nil
}

// report computes the hub's part of cluster's status.
func report(cluster *v1alpha1.Cluster, namespace namespaceState, heard agentState, now time.Time) {
	status := &cluster.Status
	status.ObservedGeneration = cluster.Generation
	status.ClockSkew = heard.skew
	switch namespace {
	case namespaceReady:
		status.Namespace = cluster.Name
	case namespaceNone, namespaceForeign, namespaceDeleting:
		status.Namespace = ""
	case namespaceUnknown:
	}
	acceptance := acceptedCondition(cluster, namespace)
	joined, connected := heard.agentConditions(cluster)
	if status.Namespace == "" && heard.seen && acceptance.Status == metav1.ConditionFalse {
		connected.Status, connected.Reason, connected.Message = metav1.ConditionUnknown, acceptance.Reason, noAccess(acceptance)+". The last reported state may be out of date"
	}
	for _, condition := range []metav1.Condition{acceptance, joined, connected} {
		condition.ObservedGeneration = cluster.Generation
		conditions.Set(&status.Conditions, condition, now)
	}
	freeze.RecordOnCluster(cluster, frozenVerdict(cluster), now)
	conditions.Conclude(&status.Conditions, nil, readyTable(status.Conditions), cluster.Generation, now)
}

// decodedCondition names the objects of the cluster that cannot be decoded.
func decodedCondition(cluster *v1alpha1.Cluster, left []undecodable.Error, now time.Time) {
	if len(left) == 0 {
		meta.RemoveStatusCondition(&cluster.Status.Conditions, v1alpha1.ClusterObjectsDecodedCondition)
		return
	}
	conditions.Set(&cluster.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ClusterObjectsDecodedCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUndecodable,
		Message: undecodable.Names(left), ObservedGeneration: cluster.Generation,
	}, now)
}

func acceptedCondition(cluster *v1alpha1.Cluster, namespace namespaceState) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ClusterAcceptedCondition, Status: metav1.ConditionFalse}
	switch {
	case cluster.Spec.Acceptance == v1alpha1.AcceptanceDenied:
		condition.Reason, condition.Message = v1alpha1.ReasonDenied, "spec.acceptance is Denied: the agent has no access"
	case !cluster.Accepted():
		condition.Reason, condition.Message = v1alpha1.ReasonAwaitingAcceptance, "Set spec.acceptance to Accepted to let this cluster join"
	case namespace == namespaceForeign:
		condition.Reason = v1alpha1.ReasonNamespaceConflict
		condition.Message = fmt.Sprintf("Namespace %q exists and was not created by the hub: remove it, or choose another name for the cluster", cluster.Name)
	case namespace == namespaceDeleting:
		condition.Reason, condition.Message = v1alpha1.ReasonNamespaceDeleting, deletingMessage(cluster)
	case namespace != namespaceReady:
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonPending
		condition.Message = fmt.Sprintf("Namespace %q does not exist yet", cluster.Name)
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonAccepted
		if cluster.Spec.Acceptance != v1alpha1.AcceptanceAccepted {
			condition.Message = "spec.acceptancePolicy is Auto"
		}
	}
	return condition
}

// deletingMessage says what keeps a namespace that is being deleted, and what ends that.
func deletingMessage(cluster *v1alpha1.Cluster) string {
	message := fmt.Sprintf("Namespace %q is being deleted, and with it the agent's access; the hub recreates it once it is gone", cluster.Name)
	if counts := cluster.Status.Machines; counts != nil && counts.Total > 0 {
		message += fmt.Sprintf(". It is kept by the finalizers of %s, which the agent can no longer remove;"+
			" their pods and Nodes stay. To force-remove these Machines: kubectl hollow cluster remove-finalizers %s", plural.Count(counts.Total, "Machine"), cluster.Name)
	} else {
		message += fmt.Sprintf(". If it stays, it may be kept by LoadTestRuns, which the agent can no longer clean up:"+
			" kubectl hollow cluster remove-finalizers %s --dry-run=client names them", cluster.Name)
	}
	return message
}

// noAccess says why the agent has no access to the hub.
func noAccess(acceptance metav1.Condition) string {
	return "The agent has no access to the hub: " + acceptance.Message
}

// frozenVerdict says why nothing may be done for cluster: every cause that holds, the one that explains most first.
func frozenVerdict(cluster *v1alpha1.Cluster) freeze.Verdict {
	unseen, ordered := outOfSight(cluster), freeze.OfAnnotation("Cluster", cluster)
	if shut := shutOut(cluster); shut.Frozen {
		// The agent has no access any more. What follows from that is no cause of its own.
		return freeze.All(shut, ordered)
	}
	return freeze.All(unseen, ordered, ofAgent(cluster, unseen, ordered))
}

// shutOut is the freeze of a cluster whose agent has no access: it is denied, or its namespace is not there for it.
func shutOut(cluster *v1alpha1.Cluster) freeze.Verdict {
	if denied := freeze.OfDenial(cluster); denied.Frozen {
		return denied
	}
	acceptance := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterAcceptedCondition)
	if cluster.Status.Namespace != "" || acceptance == nil || acceptance.Status != metav1.ConditionFalse ||
		!meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterJoinedCondition) {
		return freeze.Verdict{}
	}
	return freeze.Verdict{Frozen: true, Reason: acceptance.Reason, Message: noAccess(*acceptance)}
}

// outOfSight is the freeze of a cluster whose state is not known.
func outOfSight(cluster *v1alpha1.Cluster) freeze.Verdict {
	list := cluster.Status.Conditions
	if meta.IsStatusConditionTrue(list, v1alpha1.ClusterJoinedCondition) && !meta.IsStatusConditionTrue(list, v1alpha1.ClusterAgentConnectedCondition) {
		return freeze.Verdict{Frozen: true, Reason: v1alpha1.ReasonAgentSilent,
			Message: "The agent is silent: nothing is created or deleted until it renews its Lease"}
	}
	if target := meta.FindStatusCondition(list, v1alpha1.ClusterTargetReachableCondition); target != nil && target.Status != metav1.ConditionTrue {
		return freeze.Verdict{Frozen: true, Reason: v1alpha1.ReasonTargetUnreachable,
			Message: "The agent has not proven that it reaches its cluster's API server: " + target.Message}
	}
	return freeze.Verdict{}
}

// ofAgent is the agent's own freeze, if that tells anything beside the causes that the hub has found. It counts only
// while the agent is heard of.
func ofAgent(cluster *v1alpha1.Cluster, unseen, ordered freeze.Verdict) freeze.Verdict {
	agent := freeze.OfAgent(cluster)
	switch {
	case unseen.Reason == v1alpha1.ReasonAgentSilent,
		unseen.Frozen && (agent.Reason == v1alpha1.ReasonTargetUnreachable || agent.Reason == v1alpha1.ReasonStarting),
		ordered.Frozen && agent.Reason == v1alpha1.ReasonManualFreeze:
		return freeze.Verdict{}
	}
	return agent
}

// readyTable is what Ready is made of. A freeze counts only if all the rest is known: what follows from
// silence is Unknown, never False.
func readyTable(list []metav1.Condition) []conditions.Part {
	table := []conditions.Part{
		{Type: v1alpha1.ClusterAcceptedCondition, Wanted: metav1.ConditionTrue},
		{Type: v1alpha1.ClusterJoinedCondition, Wanted: metav1.ConditionTrue},
		{Type: v1alpha1.ClusterAgentConnectedCondition, Wanted: metav1.ConditionTrue},
		{Type: v1alpha1.ClusterObjectsDecodedCondition, Wanted: metav1.ConditionTrue, Optional: true},
	}
	if !meta.IsStatusConditionTrue(list, v1alpha1.ClusterAgentConnectedCondition) {
		return table
	}
	table = append(table, conditions.Part{Type: v1alpha1.ClusterTargetReachableCondition, Wanted: metav1.ConditionTrue})
	target := meta.FindStatusCondition(list, v1alpha1.ClusterTargetReachableCondition)
	if target != nil && target.Status == metav1.ConditionUnknown {
		return table
	}
	return append(table, conditions.Part{Type: v1alpha1.FrozenCondition, Wanted: metav1.ConditionFalse})
}

// onlyCounts reports whether nothing but the number of Machines differs.
func onlyCounts(before, after *v1alpha1.ClusterStatus) bool {
	if before.Machines == nil {
		return false
	}
	changed := before.DeepCopy()
	changed.Machines = after.Machines
	return equality.Semantic.DeepEqual(changed, after)
}

const (
	// leastSkew is the smallest clock skew, and the smallest change of one, that is worth a write.
	leastSkew = 2 * time.Second
	// warnSkew is the clock skew above which the user is told.
	warnSkew = 5 * time.Second
	// skewSamples is how many renewals are looked at together. What comes late makes a clock seem slow, never
	// fast: the greatest of a few is nearest to the truth, and one late arrival changes nothing.
	skewSamples = 3
)

// skew measures how far an agent's clock is ahead of the hub's.
type skew struct {
	samples [skewSamples]time.Duration
	count   int
	// published is what the status says.
	published time.Duration
}

// measureSkew takes in the time that an agent wrote less the hub's time when it saw that.
func (s *skew) measureSkew(ahead time.Duration) {
	s.samples[s.count%skewSamples] = ahead
	s.count++
}

// hasMoved reports whether the measure differs from what was published so far that it is worth a write. Nothing is known
// before there are enough samples.
func (s *skew) hasMoved() bool {
	return s.count >= skewSamples && (s.measuredSkew()-s.published).Abs() >= leastSkew
}

func (s *skew) measuredSkew() time.Duration {
	return max(s.samples[0], s.samples[1], s.samples[2])
}

// publishSkew returns what status.clockSkew is to say after before.
func (s *skew) publishSkew(before *metav1.Duration) *metav1.Duration {
	s.published = 0
	if before != nil {
		s.published = before.Duration
	}
	if !s.hasMoved() {
		return before
	}
	s.published = s.measuredSkew().Round(time.Second)
	if s.published.Abs() < leastSkew {
		s.published = 0
		return nil
	}
	return &metav1.Duration{Duration: s.published}
}
