package simulatedclusterset

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/simulatedclusterset/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/simulatedclusterset/waves"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/plural"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// The types of the facts that are no conditions of their own.
const (
	replicasFact = "Replicas"
	membersFact  = "Members"
)

// report computes the status.
func (c *Controller) report(s *scope, decided *plan.Plan, rolls waves.Decision, actErr error) {
	set, now := s.set, c.Clock.Now()
	status := &set.Status
	status.ObservedGeneration = set.Generation
	status.Selector = labels.Set{v1alpha1.SimulatedClusterSetNameLabel: set.Name}.String()
	s.countMembers()
	generation := func(condition metav1.Condition) metav1.Condition {
		condition.ObservedGeneration = set.Generation
		return condition
	}
	conditions.Set(&status.Conditions, generation(s.hostsCondition(decided)), now)
	conditions.Set(&status.Conditions, s.frozen.Condition(set.Generation), now)
	reportFailures(status, set.Generation, actErr, now)
	facts := []metav1.Condition{s.explainReplicas(decided), waves.Report(s.rollout, rolls), s.explainMembers()}
	conditions.Conclude(&status.Conditions, facts, readyTable(decided), set.Generation, now)
}

// countMembers counts what was observed. What has just been created or deleted counts when it is observed.
func (s *scope) countMembers() {
	status := &s.set.Status
	status.Replicas, status.ReadyReplicas, status.UpdatedReplicas, status.TerminatingReplicas = int32(len(s.members)), 0, 0, 0
	for _, one := range s.members {
		if one.DeletionTimestamp != nil {
			status.TerminatingReplicas++
			continue
		}
		if isReady(one) {
			status.ReadyReplicas++
		}
		if equality.Semantic.DeepEqual(one.Spec, s.set.Spec.Template.Spec) {
			status.UpdatedReplicas++
		}
	}
}

func isReady(one *v1alpha1.SimulatedCluster) bool {
	ready := meta.FindStatusCondition(one.Status.Conditions, v1alpha1.ReadyCondition)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == one.Generation
}

// hostsCondition says whether a Cluster can host further SimulatedClusters.
func (s *scope) hostsCondition(decided *plan.Plan) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.HostsAvailableCondition, Status: metav1.ConditionFalse}
	var unusable, held []string
	available := false
	for _, host := range s.input.Hosts {
		switch {
		case !host.Selected:
		case host.Unusable != "":
			unusable = append(unusable, host.Unusable)
		case host.Held != "":
			held = append(held, host.Held)
		default:
			available = true
		}
	}
	switch {
	case s.invalid != "":
		condition.Reason, condition.Message = v1alpha1.ReasonInvalidSelector, s.invalid
	case decided.Starting:
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonStarting
		condition.Message = "Waiting for " + summarizeReasons(held)
	case available:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonHostsAvailable
	case len(held) > 0:
		condition.Reason, condition.Message = v1alpha1.ReasonHostsHeld, "Nothing is created on hosts that are frozen or silent: "+summarizeReasons(held)
	case len(unusable) > 0:
		condition.Reason = v1alpha1.ReasonNoHostSelected
		condition.Message = "spec.hostSelector selects no Cluster that can host simulated clusters: " + summarizeReasons(unusable) +
			". Allow simulated clusters in the chart of a host's agent, or select other Clusters"
	default:
		condition.Reason = v1alpha1.ReasonNoHostSelected
		condition.Message = "spec.hostSelector matches no Cluster: correct the selector, or the Clusters' labels"
	}
	return condition
}

// summarizeReasons joins the first of many reasons.
func summarizeReasons(reasons []string) string {
	const most = 3
	if more := len(reasons) - most; more > 0 {
		reasons = append(reasons[:most:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(reasons, "; ")
}

// reportFailures says whether the API server takes what the set writes.
func reportFailures(status *v1alpha1.SimulatedClusterSetStatus, generation int64, err error, now time.Time) {
	failures := outcome.Failures(err)
	if len(failures) == 0 {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ReplicaFailureCondition)
		return
	}
	conditions.Set(&status.Conditions, metav1.Condition{
		Type: v1alpha1.ReplicaFailureCondition, Status: metav1.ConditionTrue, Reason: failures[0].Reason, Message: failures[0].Error(), ObservedGeneration: generation,
	}, now)
}

// explainReplicas says whether there are as many as wanted.
func (s *scope) explainReplicas(decided *plan.Plan) metav1.Condition {
	fact := metav1.Condition{Type: replicasFact, Status: metav1.ConditionFalse}
	terminating := s.set.Status.TerminatingReplicas
	switch {
	case len(decided.Taken) > 0:
		var names []string
		for _, ordinal := range decided.Taken {
			names = append(names, s.takers[ordinal])
		}
		fact.Reason = v1alpha1.ReasonNameTaken
		fact.Message = fmt.Sprintf("%s not the set's, and in the way of its own: delete what you do not need, or create a set of another name",
			reconciler.ListFew(names)+map[bool]string{true: " is", false: " are"}[len(names) == 1])
	case decided.Kept > 0:
		fact.Reason = v1alpha1.ReasonScaleDownDisabled
		fact.Message = fmt.Sprintf("%s more than spec.replicas kept by the annotation %s: remove it, or scale the set up",
			plural.Count(decided.Kept, "SimulatedCluster"), v1alpha1.ScaleDownDisabledAnnotation)
	case len(decided.Held) > 0:
		fact.Reason = v1alpha1.ReasonHostsHeld
		fact.Message = fmt.Sprintf("%s to be deleted, on hosts that are frozen, silent or gone: %s", plural.Count(len(decided.Held), "SimulatedCluster"), s.explainHolds(decided.Held))
	case decided.Surplus > 0 || terminating > 0:
		fact.Reason, fact.Message = v1alpha1.ReasonScalingDown, fmt.Sprintf("%d of %d to be removed", decided.Surplus+int(terminating), s.set.Status.Replicas)
	case decided.Missing > 0:
		fact.Reason, fact.Message = v1alpha1.ReasonScalingUp, fmt.Sprintf("%d of %d are there", s.set.Status.Replicas, s.input.Replicas)
	default:
		fact.Status, fact.Reason = metav1.ConditionTrue, v1alpha1.ReasonReady
	}
	return fact
}

// explainHolds says why hosts are held.
func (s *scope) explainHolds(places []plan.Place) string {
	var reasons []string
	seen := map[string]bool{}
	for _, at := range places {
		if seen[at.Host] {
			continue
		}
		seen[at.Host] = true
		why := "there is no Cluster " + at.Host
		for _, host := range s.input.Hosts {
			if host.Name == at.Host {
				why = host.Held
			}
		}
		reasons = append(reasons, why)
	}
	return summarizeReasons(reasons)
}

// explainMembers says whether all are Ready.
func (s *scope) explainMembers() metav1.Condition {
	fact := metav1.Condition{Type: membersFact, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady}
	status := s.set.Status
	if live := status.Replicas - status.TerminatingReplicas; status.ReadyReplicas < live {
		fact.Status, fact.Reason = metav1.ConditionFalse, v1alpha1.ReasonPending
		fact.Message = fmt.Sprintf("%d of %s Ready: kubectl get simulatedclusters -A -l %s", status.ReadyReplicas, plural.Count(live, "SimulatedCluster"), status.Selector)
	}
	return fact
}

// readyTable is what Ready is made of. Hosts count only where something is missing.
func readyTable(decided *plan.Plan) []conditions.Part {
	table := []conditions.Part{
		{Type: v1alpha1.FrozenCondition, Wanted: metav1.ConditionFalse},
		{Type: v1alpha1.ReplicaFailureCondition, Wanted: metav1.ConditionFalse, Optional: true},
	}
	if decided.Missing > 0 {
		table = append(table, conditions.Part{Type: v1alpha1.HostsAvailableCondition, Wanted: metav1.ConditionTrue})
	}
	return append(table, conditions.Part{Type: replicasFact, Wanted: metav1.ConditionTrue},
		conditions.Part{Type: waves.RolledOutFact, Wanted: metav1.ConditionTrue}, conditions.Part{Type: membersFact, Wanted: metav1.ConditionTrue})
}
