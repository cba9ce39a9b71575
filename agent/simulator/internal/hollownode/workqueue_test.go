package hollownode

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/util/queue"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
)

// checkWorkQueueIsWatched shows that a kubelet reports its own work queue when that is late, as long as it is, and not what a
// disruption has made late.
func checkWorkQueueIsWatched(t *testing.T, k *kubelet.Kubelet, gate *fakecri.Gate) {
	t.Helper()
	work, err := getField[queue.WorkQueue](k, private{path: "workQueue"})
	if err != nil {
		t.Fatal(err)
	}
	setters, err := getField[[]func(context.Context, *corev1.Node) error](k, nodeStatusSetters)
	if err != nil {
		t.Fatal(err)
	}
	set := setters[len(setters)-1]
	node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	expect := func(what string, want corev1.ConditionStatus) corev1.NodeCondition {
		t.Helper()
		if err := set(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		var found corev1.NodeCondition
		for _, c := range node.Status.Conditions {
			if c.Type == contract.KubeletLate {
				found = c
			}
		}
		if found.Status != want {
			t.Errorf("%s: the condition is %q: %s", what, found.Status, found.Message)
		}
		return found
	}
	work.Enqueue("later", time.Minute)
	work.Enqueue("due", 0)
	expect("a pod that is due", "")
	work.Enqueue("due", -2*workQueueLateAfter)
	gate.Fail(runtimeapi.RuntimeReady, fakecri.Failure{})
	expect("while the runtime was made to fail", "")
	gate.Restore(runtimeapi.RuntimeReady)
	expect("just after that", "")
	since := expect("a pod that waits", corev1.ConditionTrue).LastTransitionTime
	if again := expect("a pod that still waits", corev1.ConditionTrue); !again.LastTransitionTime.Equal(&since) {
		t.Error("the condition has changed, and its status has not")
	}
	work.GetWork()
	expect("no pod that is due", corev1.ConditionFalse)
	if len(node.Status.Conditions) != 2 {
		t.Errorf("the conditions are %v", node.Status.Conditions)
	}
}
