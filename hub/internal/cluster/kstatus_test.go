package cluster

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// Each state of a Cluster, with its conditions and what the kstatus library makes of them.
// Edge case: kstatus: a Cluster needing its user was InProgress.
func TestKStatus(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "said by the agent"}
	}
	reachable := condition(v1alpha1.ClusterTargetReachableCondition, metav1.ConditionTrue, v1alpha1.ReasonReachable)
	frozen := func(reason string) metav1.Condition {
		return condition(v1alpha1.ClusterAgentFrozenCondition, metav1.ConditionTrue, reason)
	}
	heard, silent := agentState{connected: true, seen: true}, agentState{seen: true}
	tests := map[string]struct {
		acceptance v1alpha1.Acceptance
		namespace  namespaceState
		heard      agentState
		agent      []metav1.Condition
		manual     bool
		// kind is Reconciling or Stalled; empty for neither.
		kind, reason string
		want         status.Status
	}{
		"waits for acceptance": {acceptance: v1alpha1.AcceptancePending, namespace: namespaceNone,
			kind: v1alpha1.ReconcilingCondition, reason: v1alpha1.ReasonAwaitingAcceptance, want: status.InProgressStatus},
		"waits for its agent": {acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady,
			kind: v1alpha1.ReconcilingCondition, reason: v1alpha1.ReasonNeverSeen, want: status.InProgressStatus},
		"is well": {acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady, heard: heard, agent: []metav1.Condition{reachable},
			want: status.CurrentStatus},
		"is denied": {acceptance: v1alpha1.AcceptanceDenied, namespace: namespaceReady, heard: silent, agent: []metav1.Condition{reachable},
			kind: v1alpha1.StalledCondition, reason: v1alpha1.ReasonDenied, want: status.FailedStatus},
		"its namespace is taken": {acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceForeign,
			kind: v1alpha1.StalledCondition, reason: v1alpha1.ReasonNamespaceConflict, want: status.FailedStatus},
		"its agent is silent": {acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady, heard: silent, agent: []metav1.Condition{reachable},
			kind: v1alpha1.ReconcilingCondition, reason: v1alpha1.ReasonLeaseExpired, want: status.InProgressStatus},
		"its agent is silent, and knew another hub before": {acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady, heard: silent,
			agent: []metav1.Condition{reachable, frozen(v1alpha1.ReasonHubChanged)},
			kind:  v1alpha1.ReconcilingCondition, reason: v1alpha1.ReasonLeaseExpired, want: status.InProgressStatus},
		"its API server is away": {acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady, heard: heard,
			agent: []metav1.Condition{condition(v1alpha1.ClusterTargetReachableCondition, metav1.ConditionFalse, v1alpha1.ReasonUnreachable)},
			kind:  v1alpha1.ReconcilingCondition, reason: v1alpha1.ReasonUnreachable, want: status.InProgressStatus},
		"its agent starts": {acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady, heard: heard,
			agent: []metav1.Condition{reachable, frozen(v1alpha1.ReasonStarting)},
			kind:  v1alpha1.ReconcilingCondition, reason: v1alpha1.ReasonStarting, want: status.InProgressStatus},
		"frozen by a user": {acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady, heard: heard, agent: []metav1.Condition{reachable},
			manual: true, kind: v1alpha1.ReconcilingCondition, reason: v1alpha1.ReasonManualFreeze, want: status.InProgressStatus},
		"frozen for another hub": {acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady, heard: heard,
			agent: []metav1.Condition{reachable, frozen(v1alpha1.ReasonHubRestored)},
			kind:  v1alpha1.StalledCondition, reason: v1alpha1.ReasonHubRestored, want: status.FailedStatus},
		"its agent is too old": {acceptance: v1alpha1.AcceptanceAccepted, namespace: namespaceReady, heard: heard,
			agent: []metav1.Condition{reachable, frozen(v1alpha1.ReasonVersionSkew)},
			kind:  v1alpha1.StalledCondition, reason: v1alpha1.ReasonVersionSkew, want: status.FailedStatus},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", Generation: 7}}
			if test.manual {
				cluster.Annotations = map[string]string{v1alpha1.FreezeAnnotation: "why not"}
			}
			cluster.Spec.Acceptance, cluster.Status.Conditions = test.acceptance, test.agent
			report(cluster, test.namespace, test.heard, start)
			list := cluster.Status.Conditions
			g.Expect(testenv.KStatus(t, cluster)).To(Equal(test.want), "%+v", list)
			g.Expect(meta.IsStatusConditionTrue(list, v1alpha1.ReadyCondition)).To(Equal(test.want == status.CurrentStatus))
			for _, kind := range []string{v1alpha1.ReconcilingCondition, v1alpha1.StalledCondition} {
				found := meta.FindStatusCondition(list, kind)
				if kind != test.kind {
					g.Expect(found).To(BeNil(), "%+v", list)
					continue
				}
				g.Expect(found).NotTo(BeNil(), "%+v", list)
				g.Expect(found.Reason).To(Equal(test.reason))
				g.Expect(found.ObservedGeneration).To(BeEquivalentTo(7))
			}
			cluster.Generation++
			g.Expect(testenv.KStatus(t, cluster)).To(Equal(status.InProgressStatus), "the hub has not looked at a change yet")
		})
	}
}
