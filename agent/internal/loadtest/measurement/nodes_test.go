package measurement

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	measure "github.com/hollowfleet/hollowfleet/internal/loadtest"
)

func TestLateKubelets(t *testing.T) {
	g := NewWithT(t)
	nodes := newNodeTracker(func(measure.Key, time.Duration, time.Time) {})
	node := func(name string, status corev1.ConditionStatus, reason string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: hollownode.KubeletLate, Status: status, Reason: reason}}},
		}
	}
	nodes.ObserveNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "never"}}, true, time.Now())
	nodes.ObserveNode(node("before", corev1.ConditionFalse, "KubeletInTime"), true, time.Now())
	g.Expect(nodes.LateKubelets()).To(BeEmpty())
	nodes.ObserveNode(node("late", corev1.ConditionTrue, hollownode.WorkQueueLate), false, time.Now())
	nodes.ObserveNode(node("late", corev1.ConditionFalse, "KubeletInTime"), false, time.Now())
	nodes.ObserveNode(node("gone", corev1.ConditionTrue, hollownode.WorkQueueLate), false, time.Now())
	nodes.ObserveNode(node("gone", corev1.ConditionTrue, hollownode.ProcessorWait), false, time.Now())
	nodes.forgetNode("gone")
	g.Expect(nodes.LateKubelets()).To(Equal(map[string]LateKubelet{"gone": {Queue: true, Starved: true}, "late": {Queue: true}}), "one that was late once was late")
}
