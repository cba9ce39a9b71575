package loadtest

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	measure "github.com/hollowfleet/hollowfleet/internal/loadtest"
)

func TestLateHeartbeats(t *testing.T) {
	g := NewWithT(t)
	now := time.Unix(1000, 0)
	lease := func(name string, age time.Duration) coordinationv1.Lease {
		renewed := metav1.NewMicroTime(now.Add(-age))
		return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	}
	s := newSimulator(clock.RealClock{})
	hollow := map[string]bool{"a": true, "b": true, "c": true, "d": true}
	s.observeLeases([]coordinationv1.Lease{lease("a", 19*time.Second), lease("b", 21*time.Second), lease("c", time.Hour), lease("real", time.Hour), {ObjectMeta: metav1.ObjectMeta{Name: "d"}}},
		hollow, map[string]bool{"c": true}, now)
	late := map[string]lateKubelet{"a": {starved: true}, "b": {queue: true, starved: true}, "c": {queue: true}}
	report, facts := s.report(late, 0, 0)
	g.Expect(report).To(And(HaveField("Nodes", BeEquivalentTo(2)), HaveField("LateHeartbeats", BeEquivalentTo(1)), HaveField("LateKubelets", BeEquivalentTo(2))))
	g.Expect(facts).To(And(HaveField("LateQueues", BeEquivalentTo(1)), HaveField("StarvedKubelets", BeEquivalentTo(2))))
	s.observeLeases([]coordinationv1.Lease{lease("b", 0), lease("c", time.Hour)}, hollow, nil, now)
	report, _ = s.report(late, 0, 0)
	g.Expect(report).To(And(HaveField("Nodes", BeEquivalentTo(2)), HaveField("LateHeartbeats", BeEquivalentTo(1))),
		"one that was late once was late, and one that was disrupted does not count any more")
	s.observeLeases(nil, hollow, map[string]bool{"b": true}, now)
	report, _ = s.report(late, 0, 0)
	g.Expect(report).To(And(HaveField("Nodes", BeEquivalentTo(1)), HaveField("LateHeartbeats", BeZero()), HaveField("LateKubelets", BeEquivalentTo(1))))
}

func TestLateKubelets(t *testing.T) {
	g := NewWithT(t)
	nodes := newNodeTracker(func(measure.Key, time.Duration, time.Time) {})
	node := func(name string, status corev1.ConditionStatus, reason string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: hollownode.KubeletLate, Status: status, Reason: reason}}},
		}
	}
	nodes.observeNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "never"}}, true, time.Now())
	nodes.observeNode(node("before", corev1.ConditionFalse, "KubeletInTime"), true, time.Now())
	g.Expect(nodes.lateKubelets()).To(BeEmpty())
	nodes.observeNode(node("late", corev1.ConditionTrue, hollownode.WorkQueueLate), false, time.Now())
	nodes.observeNode(node("late", corev1.ConditionFalse, "KubeletInTime"), false, time.Now())
	nodes.observeNode(node("gone", corev1.ConditionTrue, hollownode.WorkQueueLate), false, time.Now())
	nodes.observeNode(node("gone", corev1.ConditionTrue, hollownode.ProcessorWait), false, time.Now())
	nodes.forgetNode("gone")
	g.Expect(nodes.lateKubelets()).To(Equal(map[string]lateKubelet{"gone": {queue: true, starved: true}, "late": {queue: true}}), "one that was late once was late")
}

// Claim: Late heartbeats of short runs are seen. Broken: no look at the end.
func TestAHeartbeatThatIsLateAtTheEndOfAShortRunIsSeen(t *testing.T) {
	b := newEnv(t)
	name := b.namespace
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.HollowNodeLabel: "true"}}}
	b.Expect(b.admin.Create(t.Context(), node)).To(Succeed())
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &now},
	}
	b.Expect(b.admin.Create(t.Context(), lease)).To(Succeed())
	t.Cleanup(func() {
		_ = b.admin.Delete(context.Background(), lease)
		_ = b.admin.Delete(context.Background(), node)
	})
	run := b.create("short", configMap, nil, waits(3*time.Second))
	b.Eventually(b.looks.Load).Should(BeEquivalentTo(1), "the first look")
	before := metav1.NewMicroTime(now.Add(-time.Hour))
	lease.Spec.RenewTime = &before
	b.Expect(b.admin.Update(t.Context(), lease)).To(Succeed())
	b.Expect(b.over(run).Simulator).To(HaveValue(HaveField("LateHeartbeats", BeEquivalentTo(1))))
}

// A run of hollow Nodes whose heartbeats nobody saw is not known to be valid: an agent without the right to Leases, for example.
// Edge case: A run passed whose heartbeats nobody could read.
func TestARunWhoseHeartbeatsWereNotSeenIsInvalid(t *testing.T) {
	g := NewWithT(t)
	e := &engine{recorder: newRecorder(), watching: newWatchHealth(clock.RealClock{}), nodes: newNodeTracker(func(measure.Key, time.Duration, time.Time) {})}
	x := &execution{engine: e, simulator: newSimulator(clock.RealClock{})}
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.HollowNodeLabel: "true"}}}
	}
	e.nodes.observeNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}}, true, time.Now())
	e.nodes.observeNode(node("disrupted"), true, time.Now())
	x.simulator.observeLeases(nil, e.nodes.hollowNodes(), map[string]bool{"disrupted": true}, time.Now())
	_, facts := x.simulatorReport()
	g.Expect(invalidReasons(facts)).To(BeEmpty(), "there is no Node that should have one")
	e.nodes.observeNode(node("hollow"), true, time.Now())
	_, facts = x.simulatorReport()
	g.Expect(invalidReasons(facts)).To(ConsistOf(ContainSubstring("no heartbeat of 1 hollow Nodes was seen")))
}
