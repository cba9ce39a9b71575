package health

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// setWith has a rollout that its hub has looked at.
func setWith(ready metav1.Condition, change func(*v1alpha1.SimulatedClusterSet)) *v1alpha1.SimulatedClusterSet {
	set := &v1alpha1.SimulatedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "sims", Generation: 2}}
	set.Status.ObservedGeneration, set.Status.Conditions = 2, []metav1.Condition{ready}
	if change != nil {
		change(set)
	}
	return set
}

// Claim: `status` judges the rollout of a SimulatedClusterSet as that of a MachineFleet, and names the commands of sets. Broken: an approval that it waits for is a problem after half an hour; clusters that failed are not counted; the command of a MachineFleet named.
func TestRolloutsOfSetsAreJudged(t *testing.T) {
	g := NewWithT(t)
	since := func(reason string) metav1.Condition {
		condition := notReady(reason)
		condition.LastTransitionTime = ago(2 * longestScaling)
		return condition
	}
	awaiting := func(set *v1alpha1.SimulatedClusterSet) { set.Status.Rollout.AwaitingApproval = []string{"rest"} }
	paused := func(set *v1alpha1.SimulatedClusterSet) { set.Spec.Rollout.Paused = true }
	for name, test := range map[string]struct {
		set    *v1alpha1.SimulatedClusterSet
		state  State
		reason string
		next   string
	}{
		"healthy":               {setWith(ready, nil), Healthy, "", "kubectl describe simulatedclusterset sims"},
		"rolling out for hours": {setWith(since(v1alpha1.ReasonRollingOut), nil), InProgress, v1alpha1.ReasonRollingOut, "kubectl hollow rollout status simulatedclusterset sims"},
		"awaiting an approval":  {setWith(since(v1alpha1.ReasonAwaitingApproval), awaiting), Waiting, v1alpha1.ReasonAwaitingApproval, "kubectl hollow rollout approve simulatedclusterset sims --group rest"},
		"outside of its window": {setWith(since(v1alpha1.ReasonOutsideMaintenanceWindow), nil), Waiting, v1alpha1.ReasonOutsideMaintenanceWindow, ""},
		"paused":                {setWith(since(v1alpha1.ReasonPaused), paused), Paused, v1alpha1.ReasonPaused, "kubectl hollow rollout resume simulatedclusterset sims"},
		"gates that changed": {setWith(since(v1alpha1.ReasonGatesChanged), func(set *v1alpha1.SimulatedClusterSet) {
			set.Status.Conditions = append(set.Status.Conditions, is(v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.ReasonGatesChanged))
		}), Problem, v1alpha1.ReasonGatesChanged, ""},
		"starting":             {setWith(notReady(v1alpha1.ReasonPending), nil), InProgress, v1alpha1.ReasonPending, ""},
		"starting for an hour": {setWith(since(v1alpha1.ReasonPending), nil), Problem, ReasonTakesLong + ": " + v1alpha1.ReasonPending, ""},
		"one failed": {setWith(since(v1alpha1.ReasonRollingOut), func(set *v1alpha1.SimulatedClusterSet) {
			set.Status.Rollout.Clusters = v1alpha1.MachineFleetClusters{Selected: 3, Failed: 1, Waiting: 2}
		}), Problem, ReasonClusters, "kubectl hollow rollout status simulatedclusterset sims"},
		"refused in one, complete": {setWith(ready, func(set *v1alpha1.SimulatedClusterSet) {
			set.Status.Rollout.Failures = []v1alpha1.MachineFleetFailure{{Cluster: "sims-1"}}
		}), Problem, ReasonClusters, ""},
	} {
		found := judged(test.set)
		g.Expect(found).To(find(test.state, test.reason, ""), name)
		if test.next != "" {
			g.Expect(nextCommand(subjectOf(test.set), found)).To(Equal(test.next), name)
		}
	}
	g.Expect(judged(setWith(since(v1alpha1.ReasonRollingOut), func(set *v1alpha1.SimulatedClusterSet) {
		set.Status.Rollout.Clusters = v1alpha1.MachineFleetClusters{Selected: 3, Failed: 1}
		set.Status.Conditions = append(set.Status.Conditions, metav1.Condition{Type: v1alpha1.ProgressingCondition, Status: metav1.ConditionTrue, Message: "wave 1 of 2"})
	})).message).To(Equal("of 3 clusters: 1 failed; wave 1 of 2"))
}
