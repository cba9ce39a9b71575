package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func TestTurnsOfTheFreezeAreTold(t *testing.T) {
	frozen := func(reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.FrozenCondition, Status: metav1.ConditionTrue, Reason: reason, Message: message}}
	}
	thawed := []metav1.Condition{{Type: v1alpha1.FrozenCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotFrozen}}
	warning := func(reason, note string) []reconciler.Event {
		return []reconciler.Event{{Type: corev1.EventTypeWarning, Reason: reason, Action: "Observe", Note: note}}
	}
	tests := map[string]struct {
		before, after []metav1.Condition
		want          []reconciler.Event
	}{
		"a cluster that is new":    {nil, thawed, nil},
		"nothing":                  {thawed, thawed, nil},
		"another text of the same": {frozen(v1alpha1.ReasonAgentSilent, "a"), frozen(v1alpha1.ReasonAgentSilent, "b"), nil},
		"a freeze that is there from the start": {
			nil, frozen(v1alpha1.ReasonManualFreeze, "by jane"), warning(v1alpha1.ReasonManualFreeze, "Frozen is True: by jane"),
		},
		"the cause changes": {
			frozen(v1alpha1.ReasonAgentSilent, "silent"), frozen(v1alpha1.ReasonTargetUnreachable, "away"),
			warning(v1alpha1.ReasonTargetUnreachable, "Frozen is True: away"),
		},
		// Edge case: A join's events were warnings. Also: "an agent that has just joined", "an agent that compares its caches".
		"an agent that starts": {
			thawed, frozen(v1alpha1.ReasonStarting, "it proves the API servers"),
			[]reconciler.Event{{Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonStarting, Action: "Observe", Note: "Frozen is True: it proves the API servers"}},
		},
		"an agent that has just joined": {
			nil, append(frozen(v1alpha1.ReasonTargetUnreachable, "not known yet"), metav1.Condition{
				Type: v1alpha1.ClusterTargetReachableCondition, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonStarting,
			}),
			[]reconciler.Event{{Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonTargetUnreachable, Action: "Observe", Note: "Frozen is True: not known yet"}},
		},
		"a workload cluster that does not answer": {
			nil, append(frozen(v1alpha1.ReasonTargetUnreachable, "away"), metav1.Condition{
				Type: v1alpha1.ClusterTargetReachableCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonStarting,
			}),
			warning(v1alpha1.ReasonTargetUnreachable, "Frozen is True: away"),
		},
		"a workload cluster of which nothing is known any more": {
			nil, append(frozen(v1alpha1.ReasonTargetUnreachable, "away"), metav1.Condition{
				Type: v1alpha1.ClusterTargetReachableCondition, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonAgentSilent,
			}),
			warning(v1alpha1.ReasonTargetUnreachable, "Frozen is True: away"),
		},
		"an agent that has just joined and compares the hub": {
			nil, frozen(v1alpha1.ReasonHubUnchecked, "it is compared"),
			[]reconciler.Event{{Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonHubUnchecked, Action: "Observe", Note: "Frozen is True: it is compared"}},
		},
		"an agent that starts and compares the hub": {
			frozen(v1alpha1.ReasonStarting, "it proves the API servers"), frozen(v1alpha1.ReasonHubUnchecked, "it is compared"),
			[]reconciler.Event{{Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonHubUnchecked, Action: "Observe", Note: "Frozen is True: it is compared"}},
		},
		"an agent that compares its caches": {
			thawed, frozen(v1alpha1.ReasonRelisting, "it takes a few seconds"),
			[]reconciler.Event{{Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonRelisting, Action: "Observe", Note: "Frozen is True: it takes a few seconds"}},
		},
		"the thaw": {
			frozen(v1alpha1.ReasonAgentSilent, "silent"), thawed,
			[]reconciler.Event{{Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonNotFrozen, Action: "Observe", Note: "Frozen is False"}},
		},
	}
	for _, reason := range []string{
		v1alpha1.ReasonAgentSilent, v1alpha1.ReasonTargetUnreachable, v1alpha1.ReasonHostUnreachable, v1alpha1.ReasonManualFreeze,
		v1alpha1.ReasonHubUnchecked, v1alpha1.ReasonHubChanged, v1alpha1.ReasonHubRestored, v1alpha1.ReasonHubEmpty,
	} {
		test := tests[reason]
		test.before, test.after, test.want = thawed, frozen(reason, "why"), warning(reason, "Frozen is True: why")
		tests[reason] = test
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, turnEvents(test.before, test.after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
