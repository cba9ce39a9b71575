package cluster

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestReportSumsUp(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "said by the agent"}
	}
	reachable := condition(v1alpha1.ClusterTargetReachableCondition, metav1.ConditionTrue, v1alpha1.ReasonReachable)
	heard := agentState{connected: true, seen: true}
	tests := map[string]struct {
		acceptance  v1alpha1.Acceptance
		namespace   namespaceState
		heard       agentState
		agent       []metav1.Condition
		annotations map[string]string
		accepted    string
		ready       metav1.ConditionStatus
		readyReason string
		// frozen is the reason of the freeze; empty for none.
		frozen string
	}{
		"waits for the user": {
			acceptance: v1alpha1.AcceptancePending, namespace: namespaceNone,
			accepted: v1alpha1.ReasonAwaitingAcceptance, ready: metav1.ConditionFalse, readyReason: v1alpha1.ReasonAwaitingAcceptance,
		},
		"is denied": {
			acceptance: v1alpha1.AcceptanceDenied, namespace: namespaceReady, heard: heard, agent: []metav1.Condition{reachable},
			accepted: v1alpha1.ReasonDenied, ready: metav1.ConditionFalse, readyReason: v1alpha1.ReasonDenied, frozen: v1alpha1.ReasonDenied,
		},
		"is denied, and its agent has fallen silent": {
			acceptance: v1alpha1.AcceptanceDenied, namespace: namespaceReady, heard: agentState{seen: true}, agent: []metav1.Condition{reachable},
			accepted: v1alpha1.ReasonDenied, ready: metav1.ConditionFalse, readyReason: v1alpha1.ReasonDenied, frozen: v1alpha1.ReasonDenied,
		},
		"finds its namespace taken": {
			acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceForeign,
			accepted: v1alpha1.ReasonNamespaceConflict, ready: metav1.ConditionFalse, readyReason: v1alpha1.ReasonNamespaceConflict,
		},
		"finds its namespace going": {
			acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceDeleting,
			accepted: v1alpha1.ReasonNamespaceDeleting, ready: metav1.ConditionFalse, readyReason: v1alpha1.ReasonNamespaceDeleting,
		},
		"finds its namespace going, and its agent was at work": {
			acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceDeleting, heard: agentState{seen: true}, agent: []metav1.Condition{reachable},
			accepted: v1alpha1.ReasonNamespaceDeleting, ready: metav1.ConditionFalse, readyReason: v1alpha1.ReasonNamespaceDeleting,
			frozen: v1alpha1.ReasonNamespaceDeleting,
		},
		"finds its namespace taken, and its agent was at work": {
			acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceForeign, heard: agentState{seen: true}, agent: []metav1.Condition{reachable},
			accepted: v1alpha1.ReasonNamespaceConflict, ready: metav1.ConditionFalse, readyReason: v1alpha1.ReasonNamespaceConflict,
			frozen: v1alpha1.ReasonNamespaceConflict,
		},
		"waits for its agent": {
			acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady,
			accepted: v1alpha1.ReasonAccepted, ready: metav1.ConditionFalse, readyReason: v1alpha1.ReasonNeverSeen,
		},
		"is well": {
			acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady, heard: heard, agent: []metav1.Condition{reachable},
			accepted: v1alpha1.ReasonAccepted, ready: metav1.ConditionTrue, readyReason: v1alpha1.ReasonReady,
		},
		"has a silent agent: frozen, and Ready is Unknown, not False": {
			acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady, heard: agentState{seen: true}, agent: []metav1.Condition{reachable},
			accepted: v1alpha1.ReasonAccepted, ready: metav1.ConditionUnknown, readyReason: v1alpha1.ReasonLeaseExpired, frozen: v1alpha1.ReasonAgentSilent,
		},
		"has a silent agent that said bad things before": {
			acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady, heard: agentState{seen: true},
			agent:    []metav1.Condition{condition(v1alpha1.ClusterTargetReachableCondition, metav1.ConditionFalse, v1alpha1.ReasonUnreachable)},
			accepted: v1alpha1.ReasonAccepted, ready: metav1.ConditionUnknown, readyReason: v1alpha1.ReasonLeaseExpired, frozen: v1alpha1.ReasonAgentSilent,
		},
		"cannot be reached by its agent": {
			acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady, heard: heard,
			agent:    []metav1.Condition{condition(v1alpha1.ClusterTargetReachableCondition, metav1.ConditionFalse, v1alpha1.ReasonUnreachable)},
			accepted: v1alpha1.ReasonAccepted, ready: metav1.ConditionFalse, readyReason: v1alpha1.ReasonUnreachable, frozen: v1alpha1.ReasonTargetUnreachable,
		},
		"may or may not be reached by its agent": {
			acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady, heard: heard,
			agent:    []metav1.Condition{condition(v1alpha1.ClusterTargetReachableCondition, metav1.ConditionUnknown, v1alpha1.ReasonStarting)},
			accepted: v1alpha1.ReasonAccepted, ready: metav1.ConditionUnknown, readyReason: v1alpha1.ReasonStarting, frozen: v1alpha1.ReasonTargetUnreachable,
		},
		"has an agent that froze": {
			acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady, heard: heard,
			agent:    []metav1.Condition{reachable, condition(v1alpha1.ClusterAgentFrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonStarting)},
			accepted: v1alpha1.ReasonAccepted, ready: metav1.ConditionFalse, readyReason: v1alpha1.ReasonStarting, frozen: v1alpha1.ReasonStarting,
		},
		"has an agent that may be frozen": {
			acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady, heard: heard,
			agent:    []metav1.Condition{reachable, condition(v1alpha1.ClusterAgentFrozenCondition, metav1.ConditionUnknown, v1alpha1.ReasonUnknown)},
			accepted: v1alpha1.ReasonAccepted, ready: metav1.ConditionFalse, readyReason: v1alpha1.ReasonUnknown, frozen: v1alpha1.ReasonUnknown,
		},
		"is frozen by its user": {
			acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady, heard: heard, agent: []metav1.Condition{reachable},
			annotations: map[string]string{v1alpha1.FreezeAnnotation: "why not"},
			accepted:    v1alpha1.ReasonAccepted, ready: metav1.ConditionFalse, readyReason: v1alpha1.ReasonManualFreeze, frozen: v1alpha1.ReasonManualFreeze,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", Generation: 7, Annotations: test.annotations}}
			cluster.Spec.Acceptance = test.acceptance
			cluster.Status.Conditions = test.agent
			report(cluster, test.namespace, test.heard, start)
			find := func(kind string) *metav1.Condition {
				found := meta.FindStatusCondition(cluster.Status.Conditions, kind)
				g.Expect(found).NotTo(BeNil(), kind)
				g.Expect(found.ObservedGeneration).To(BeEquivalentTo(7), kind)
				return found
			}
			g.Expect(find(v1alpha1.ClusterAcceptedCondition).Reason).To(Equal(test.accepted))
			ready := find(v1alpha1.ReadyCondition)
			g.Expect(ready.Status).To(Equal(test.ready))
			g.Expect(ready.Reason).To(Equal(test.readyReason))
			frozen := find(v1alpha1.FrozenCondition)
			if test.frozen == "" {
				g.Expect(frozen.Status).To(Equal(metav1.ConditionFalse))
			} else {
				g.Expect(frozen.Status).To(Equal(metav1.ConditionTrue))
				g.Expect(frozen.Reason).To(Equal(test.frozen))
				g.Expect(frozen.Message).NotTo(BeEmpty())
			}
			g.Expect(meta.IsStatusConditionFalse(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition)).To(
				BeFalse(), "silence is Unknown")
		})
	}
}

// Claim: A Cluster names every cause of its freeze. Broken: the first cause only.
func TestFrozenNamesEveryCause(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	joined := condition(v1alpha1.ClusterJoinedCondition, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	heard := condition(v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionTrue, v1alpha1.ReasonLeaseRenewed, "")
	silent := condition(v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionUnknown, v1alpha1.ReasonLeaseExpired, "")
	away := condition(v1alpha1.ClusterTargetReachableCondition, metav1.ConditionFalse, v1alpha1.ReasonUnreachable, "connection refused")
	agent := func(reason, message string) metav1.Condition {
		return condition(v1alpha1.ClusterAgentFrozenCondition, metav1.ConditionTrue, reason, message)
	}
	by := []string{"by jane", "(storage maintenance)"}
	for name, test := range map[string]struct {
		denied     bool
		conditions []metav1.Condition
		reason     string
		also, not  []string
	}{
		"a silent agent, which said things before": {
			conditions: []metav1.Condition{joined, silent, away, agent(v1alpha1.ReasonHubRestored, "restored")},
			reason:     v1alpha1.ReasonAgentSilent, also: by, not: []string{"restored", "connection refused"},
		},
		"a target that is away": {
			conditions: []metav1.Condition{joined, heard, away, agent(v1alpha1.ReasonTargetUnreachable, "the same")},
			reason:     v1alpha1.ReasonTargetUnreachable, also: append(by, "connection refused"), not: []string{"the same"},
		},
		"a target and a host that are away": {
			conditions: []metav1.Condition{joined, heard, away, agent(v1alpha1.ReasonHostUnreachable, "host: Timeout")},
			reason:     v1alpha1.ReasonTargetUnreachable, also: append(by, "host: Timeout"),
		},
		"the person alone, whom the agent obeys": {
			conditions: []metav1.Condition{joined, heard, agent(v1alpha1.ReasonManualFreeze, "the annotation says so")},
			reason:     v1alpha1.ReasonManualFreeze, also: by, not: []string{"besides", "the annotation says so"},
		},
		"a hub that was restored": {
			conditions: []metav1.Condition{joined, heard, agent(v1alpha1.ReasonHubRestored, "restored")},
			reason:     v1alpha1.ReasonManualFreeze, also: append(by, "restored"),
		},
		"a denial": {
			denied: true, conditions: []metav1.Condition{joined, silent}, reason: v1alpha1.ReasonDenied, also: by, not: []string{"silent"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{
				v1alpha1.FreezeAnnotation: "storage maintenance", v1alpha1.FreezeUserAnnotation: "jane",
			}}}
			if test.denied {
				cluster.Spec.Acceptance = v1alpha1.AcceptanceDenied
			}
			cluster.Status.Conditions = test.conditions
			verdict := frozenVerdict(cluster)
			g.Expect(verdict.Reason).To(Equal(test.reason))
			for _, part := range test.also {
				g.Expect(verdict.Message).To(ContainSubstring(part))
			}
			for _, part := range test.not {
				g.Expect(verdict.Message).NotTo(ContainSubstring(part))
			}
		})
	}
}

// A fleet may rest on conditions that others write, and on what the agent reports.
func TestConditionsOfOthersAreKept(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	others := []string{"example.com/Alerting", v1alpha1.ClusterDisruptionAllowedCondition}
	for _, kind := range others {
		f.ExpectConditionApplied(f.refresh(), kind, metav1.ConditionFalse, "Tested")
	}
	f.accept(v1alpha1.AcceptanceDenied)
	f.ExpectReconciled(f.cluster)
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ClusterAcceptedCondition).Status).To(Equal(metav1.ConditionFalse), "the hub has written the conditions")
	for _, kind := range others {
		f.Expect(f.ReadCondition(f.cluster, kind).Reason).To(Equal("Tested"))
	}
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ReadyCondition).Message).NotTo(ContainSubstring("Tested"), "Ready does not rest on them")
}
