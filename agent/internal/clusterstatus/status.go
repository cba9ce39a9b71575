package clusterstatus

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/internal/checks"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// facts are what the agent knows of its cluster now. What is empty is not known.
type facts struct {
	clusterUID, kubernetesVersion, agentVersion string
	capacity                                    corev1.ResourceList
	// finding is what waits for a person's acknowledgement.
	finding      string
	findingKnown bool
	// orphans is what has no Machine on the hub.
	orphans      *v1alpha1.Orphans
	orphansKnown bool
	// checks is what was read in the cluster, for healthChecks too.
	checks       checks.Result
	healthChecks []v1alpha1.ClusterHealthCheck
	podQuota     *v1alpha1.PodQuota
	freeze       freeze.State
	// simulatedClusters: the agent runs them.
	simulatedClusters bool
	// otherTrouble: the probes fail in another way than at the last report.
	otherTrouble bool
	generation   int64
	now          time.Time
}

// ownConditions are the condition types that the agent writes on a Cluster, beside those of its health checks and, after these,
// SimulatedClustersAllowed.
var ownConditions = []string{v1alpha1.ClusterTargetReachableCondition, v1alpha1.ClusterAgentFrozenCondition, v1alpha1.ClusterDisruptionAllowedCondition}

// statusOf computes the agent's part of a Cluster's status. What is not known now stays as it was last reported.
func statusOf(before v1alpha1.ClusterStatus, f facts) v1alpha1.ClusterStatus {
	after := v1alpha1.ClusterStatus{
		ClusterUID: before.ClusterUID, KubernetesVersion: before.KubernetesVersion,
		AgentVersion: f.agentVersion, Capacity: before.Capacity, UnacknowledgedHub: before.UnacknowledgedHub,
		Orphans: before.Orphans, PodQuota: before.PodQuota,
	}
	if f.findingKnown {
		after.UnacknowledgedHub = f.finding
	}
	if f.orphansKnown {
		after.Orphans = f.orphans
	}
	if f.clusterUID != "" {
		after.ClusterUID = f.clusterUID
	}
	if f.kubernetesVersion != "" {
		after.KubernetesVersion = f.kubernetesVersion
	}
	if f.capacity != nil {
		after.Capacity = f.capacity
	}
	if f.checks.Known {
		after.PodQuota = f.podQuota
	}
	own := slices.Clone(ownConditions)
	for _, check := range f.healthChecks {
		own = append(own, check.Type)
	}
	own = append(own, v1alpha1.ClusterSimulatedClustersAllowedCondition)
	for _, conditionType := range own {
		if condition := meta.FindStatusCondition(before.Conditions, conditionType); condition != nil {
			after.Conditions = append(after.Conditions, *condition)
		}
	}
	for _, condition := range []metav1.Condition{targetReachable(f), agentFrozen(f)} {
		known := meta.FindStatusCondition(after.Conditions, condition.Type)
		if known != nil {
			condition = settleCondition(*known, condition, f.otherTrouble || before.UnacknowledgedHub != after.UnacknowledgedHub)
		}
		conditions.Set(&after.Conditions, condition, f.now)
	}
	for _, condition := range f.checks.Conditions {
		if slices.Contains(own, condition.Type) { // A check that a user has just removed is not reported any more.
			conditions.Set(&after.Conditions, condition, f.now)
		}
	}
	conditions.Set(&after.Conditions, simulatedClustersAllowed(f), f.now)
	return after
}

// settleCondition is condition with what of known holds on. An agent that has just started does not know better than the one
// before that the target cannot be reached. The message of a failing probe changes from one to the next; the first one
// is telling enough, until there is other news.
func settleCondition(known, condition metav1.Condition, news bool) metav1.Condition {
	if condition.Reason == v1alpha1.ReasonStarting && condition.Status == metav1.ConditionUnknown && known.Status == metav1.ConditionFalse {
		condition.Status, condition.Reason = known.Status, known.Reason
	}
	same := known.Status == condition.Status && known.Reason == condition.Reason
	if same && (!news || condition.Message == "") {
		condition.Message = known.Message
	}
	return condition
}

// troublesOf is what came of the last probe that failed, of each API server that keeps the agent frozen. A good answer
// does not end a trouble that it has not thawed.
func troublesOf(state freeze.State, before map[freeze.Scope]freeze.Outcome) map[freeze.Scope]freeze.Outcome {
	troubles := map[freeze.Scope]freeze.Outcome{}
	for _, endpoint := range state.Endpoints {
		switch {
		case !endpoint.Frozen:
		case endpoint.LastOutcome != freeze.OK && endpoint.LastOutcome != "":
			troubles[endpoint.Scope] = endpoint.LastOutcome
		case before[endpoint.Scope] != "":
			troubles[endpoint.Scope] = before[endpoint.Scope]
		}
	}
	return troubles
}

func targetReachable(f facts) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ClusterTargetReachableCondition, Status: metav1.ConditionUnknown,
		Reason: v1alpha1.ReasonStarting, ObservedGeneration: f.generation,
	}
	for _, endpoint := range f.freeze.Endpoints {
		if endpoint.Scope != freeze.Target {
			continue
		}
		condition.Reason, condition.Message = endpoint.Reason, endpoint.LastMessage
		switch endpoint.Reason {
		case v1alpha1.ReasonReachable:
			condition.Status, condition.Message = metav1.ConditionTrue, ""
		case v1alpha1.ReasonUnreachable:
			condition.Status = metav1.ConditionFalse
		}
	}
	return condition
}

func agentFrozen(f facts) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ClusterAgentFrozenCondition, Status: metav1.ConditionFalse,
		Reason: f.freeze.Reason, Message: f.freeze.Message, ObservedGeneration: f.generation,
	}
	if f.freeze.Frozen {
		condition.Status = metav1.ConditionTrue
	}
	return condition
}

// simulatedClustersAllowed tells whether the cluster can host SimulatedClusters.
func simulatedClustersAllowed(f facts) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ClusterSimulatedClustersAllowedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonTurnedOn, ObservedGeneration: f.generation,
	}
	if !f.simulatedClusters {
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonTurnedOff
		condition.Message = "The agent has nothing that runs simulated clusters: neither --simulated-clusters nor --simulated-clusters-socket is set"
	}
	return condition
}

// hasSameStatus reports whether the Cluster has the agent's part of the status already.
func hasSameStatus(cluster v1alpha1.ClusterStatus, own v1alpha1.ClusterStatus) bool {
	if cluster.ClusterUID != own.ClusterUID || cluster.KubernetesVersion != own.KubernetesVersion ||
		cluster.AgentVersion != own.AgentVersion || cluster.UnacknowledgedHub != own.UnacknowledgedHub || !equality.Semantic.DeepEqual(cluster.Capacity, own.Capacity) ||
		!equality.Semantic.DeepEqual(cluster.Orphans, own.Orphans) || !equality.Semantic.DeepEqual(cluster.PodQuota, own.PodQuota) {
		return false
	}
	for _, condition := range own.Conditions {
		known := meta.FindStatusCondition(cluster.Conditions, condition.Type)
		if known == nil || !equality.Semantic.DeepEqual(*known, condition) {
			return false
		}
	}
	return true
}

// longestWait is how long a value may keep changing before it is reported all the same.
const longestWait = 30 * time.Second

// debounced holds a value back while it changes: a scale-up is reported as one change, not as many.
type debounced[T any] struct {
	reported, pending T
	known             bool
	since             time.Time
}

// offerValue takes in the value now, if it is known, and returns the one to report. One that differs is reported when it is
// offered twice in a row, or has been changing for longestWait.
func (s *debounced[T]) offerValue(value T, known bool, now time.Time) T {
	var none T
	switch {
	case !known || s.known && equality.Semantic.DeepEqual(value, s.reported):
		s.pending, s.since = none, time.Time{}
		return s.reported
	case !s.known:
		s.reported, s.known = value, true
		return s.reported
	}
	again := !s.since.IsZero() && equality.Semantic.DeepEqual(value, s.pending)
	if s.since.IsZero() {
		s.since = now
	}
	if again || now.Sub(s.since) >= longestWait {
		s.reported, s.pending, s.since = value, none, time.Time{}
		return s.reported
	}
	s.pending = value
	return s.reported
}

// Sum adds up the capacity of nodes. It is never nil: no nodes have no capacity.
func Sum(nodes []corev1.Node) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for i := range nodes {
		for name, quantity := range nodes[i].Status.Capacity {
			if quantity.IsZero() {
				continue
			}
			total := sum[name]
			total.Add(quantity)
			sum[name] = total
		}
	}
	return sum
}
