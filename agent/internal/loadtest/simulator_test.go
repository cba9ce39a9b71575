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
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/measurement"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
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
	late := map[string]measurement.LateKubelet{"a": {Starved: true}, "b": {Queue: true, Starved: true}, "c": {Queue: true}}
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

// Edge case: Nodes with slow heartbeats made each load test Invalid.
func TestAHeartbeatIsLateByTheDurationOfItsLease(t *testing.T) {
	g := NewWithT(t)
	now := time.Unix(1000, 0)
	lease := func(name string, age time.Duration, seconds *int32) coordinationv1.Lease {
		renewed := metav1.NewMicroTime(now.Add(-age))
		return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed, LeaseDurationSeconds: seconds}}
	}
	s := newSimulator(clock.RealClock{})
	s.observeLeases([]coordinationv1.Lease{
		lease("slow", 59*time.Second, new(int32(120))), lease("slow and late", 61*time.Second, new(int32(120))), lease("fast and late", 3*time.Second, new(int32(4))),
		lease("nothing", 19*time.Second, new(int32(0))),
	}, map[string]bool{"slow": true, "slow and late": true, "fast and late": true, "nothing": true}, nil, now)
	g.Expect(s.late).To(Equal(map[string]bool{"slow": false, "slow and late": true, "fast and late": true, "nothing": false}))
}

// Claim: Late heartbeats of short runs are seen. Broken: no look at the end.
func TestAHeartbeatThatIsLateAtTheEndOfAShortRunIsSeen(t *testing.T) {
	b := newEnv(t)
	name := b.namespace
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.HollowNodeLabel: "true"}}}
	b.ExpectApplied(node)
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &now},
	}
	b.ExpectApplied(lease)
	t.Cleanup(func() {
		_ = b.Client.Delete(context.Background(), lease)
		_ = b.Client.Delete(context.Background(), node)
	})
	run := b.create("short", configMap, nil, waits(3*time.Second))
	b.Eventually(b.looks.Load).Should(BeEquivalentTo(1), "the first look")
	before := metav1.NewMicroTime(now.Add(-time.Hour))
	lease.Spec.RenewTime = &before
	b.ExpectApplied(lease)
	b.Expect(b.expectEnded(run).Simulator).To(HaveValue(HaveField("LateHeartbeats", BeEquivalentTo(1))))
}

// A run is Invalid if no heartbeats of its hollow Nodes were seen, for example by an agent without the right to read Leases.
// Edge case: A run passed whose heartbeats could not be read.
func TestARunWhoseHeartbeatsWereNotSeenIsInvalid(t *testing.T) {
	g := NewWithT(t)
	e := &engine{Meter: measurement.New(&v1alpha1.LoadTestRun{}, clock.RealClock{}, nil)}
	x := &execution{engine: e, simulator: newSimulator(clock.RealClock{})}
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.HollowNodeLabel: "true"}}}
	}
	e.Nodes.ObserveNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}}, true, time.Now())
	e.Nodes.ObserveNode(node("disrupted"), true, time.Now())
	x.simulator.observeLeases(nil, e.Nodes.HollowNodes(), map[string]bool{"disrupted": true}, time.Now())
	_, facts := x.simulatorReport()
	g.Expect(invalidReasons(facts)).To(BeEmpty(), "without Nodes there is nothing to see")
	e.Nodes.ObserveNode(node("hollow"), true, time.Now())
	_, facts = x.simulatorReport()
	g.Expect(invalidReasons(facts)).To(ConsistOf(ContainSubstring("no heartbeat of 1 hollow Nodes was seen")))
}

// Claim: A stalled agent or late watch is Invalid. Broken: by the row of outages and stopped agents only. Also: TestInvalidity; agent/internal/loadtest/measurement TestHowLongAgoAnObjectWasMade, TestAWatchIsBehindOnlyWhereRequestsAreNot.
func TestAProcessThatStandsStillNotices(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	p := &pulse{clock: clock}
	p.checkClock()
	for _, gap := range []time.Duration{pulsePeriod, longestPulse, 9 * time.Second, pulsePeriod, 1001 * time.Millisecond} {
		clock.Step(gap)
		p.checkClock()
	}
	stalls, longest := p.countStalls()
	g.Expect(stalls).To(BeEquivalentTo(2))
	g.Expect(longest).To(Equal(9 * time.Second))
}
