package hollownode

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	kubeletevents "k8s.io/kubernetes/pkg/kubelet/events"
)

// Claim: An event of the start is recorded once, and of a Node that was ready each one. Broken: a Node that fails again tells nothing; a pod's event is left out.
func TestEventsOfTheStartAreRecordedOnce(t *testing.T) {
	recorded := record.NewFakeRecorder(10)
	recorder := &startRecorder{EventRecorderLogger: recorded, told: &startEvents{told: map[string]bool{}}}
	node, pod := &corev1.ObjectReference{Kind: "Node", Name: "n"}, &corev1.ObjectReference{Kind: "Pod", Name: "p"}
	for i, c := range []struct {
		object runtime.Object
		reason string
		want   int
	}{
		{node, kubeletevents.NodeNotReady, 1}, {node, kubeletevents.NodeNotReady, 0}, {pod, kubeletevents.NodeNotReady, 1}, {pod, kubeletevents.NodeNotReady, 1},
		{node, kubeletevents.NodeReady, 1}, {node, kubeletevents.NodeNotReady, 1}, {node, kubeletevents.NodeReady, 1}, {node, kubeletevents.NodeNotReady, 1},
	} {
		recorder.WithLogger(klog.Background()).Eventf(c.object, corev1.EventTypeNormal, c.reason, "of %s", "one")
		got := len(recorded.Events)
		for range got {
			<-recorded.Events
		}
		if got != c.want {
			t.Errorf("event %d, %s of %T: %d recorded, want %d", i, c.reason, c.object, got, c.want)
		}
	}
}
