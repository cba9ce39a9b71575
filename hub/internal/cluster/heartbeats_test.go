package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// renewal is the Lease of cluster c at its nth renewal.
func renewal(n int) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "c", Name: v1alpha1.AgentLeaseName},
		// A wrong clock in the workload cluster must not matter.
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("agent"), RenewTime: &metav1.MicroTime{Time: start.AddDate(-20, 0, n)}},
	}
}

func watched(conditions ...string) *v1alpha1.Cluster {
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	cluster.Spec.Heartbeat.GraceSeconds = 40
	cluster.Status.Namespace = "c"
	for _, kind := range conditions {
		cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue})
	}
	return cluster
}

// Claim: A renewal that may be from before a silence unfreezes nothing. Broken: the first renewal counts; so does a Lease that was given up; an agent once heard stays heard. Also: TestSilenceThatNobodySawIsSilence, TestAnotherHolderIsNoLatecomer, TestAgentThatFallsSilentFreezesItsCluster.
func TestHeartbeats(t *testing.T) {
	g := NewWithT(t)
	h := newHeartbeats()
	cluster := watched()
	next := func(now time.Time) time.Duration {
		silent, next := h.expiredClusters(now)
		g.Expect(silent).To(BeEmpty())
		return next
	}
	g.Expect(h.evaluateAgent(cluster, start)).To(Equal(agentState{}), "nothing seen")
	g.Expect(next(start)).To(BeZero(), "no cluster is watched")
	g.Expect(h.observeLease(renewal(1), false, start)).To(BeTrue(), "the first renewal is news")
	g.Expect(h.evaluateAgent(cluster, start)).To(Equal(agentState{connected: true, seen: true}))
	g.Expect(next(start)).To(Equal(40 * time.Second))
	g.Expect(h.observeLease(renewal(2), false, start.Add(10*time.Second))).To(BeFalse(), "the next is none")
	g.Expect(h.observeLease(renewal(2), false, start.Add(30*time.Second))).To(BeFalse(), "the same again is no renewal")
	g.Expect(next(start.Add(40*time.Second))).To(Equal(10*time.Second), "a renewal moves the deadline and wakes no controller")
	g.Expect(h.evaluateAgent(cluster, start.Add(49*time.Second)).connected).To(BeTrue())
	silent, _ := h.expiredClusters(start.Add(50 * time.Second))
	g.Expect(silent).To(ConsistOf("c"))
	g.Expect(next(start.Add(50*time.Second))).To(BeZero(), "it is told once")
	g.Expect(h.evaluateAgent(cluster, start.Add(50*time.Second))).To(Equal(agentState{seen: true}), "at expiry it is silent")
	g.Expect(h.observeLease(renewal(3), false, start.Add(60*time.Second))).To(BeFalse(), "it may have been on its way since before")
	g.Expect(h.evaluateAgent(cluster, start.Add(60*time.Second))).To(Equal(agentState{seen: true}))
	g.Expect(h.observeLease(renewal(4), false, start.Add(70*time.Second))).To(BeTrue(), "the next one is news")
	g.Expect(h.evaluateAgent(cluster, start.Add(70*time.Second)).connected).To(BeTrue())
	g.Expect(next(start.Add(70 * time.Second))).To(Equal(40 * time.Second))
	h.forgetCluster("c")
	g.Expect(next(start.Add(70 * time.Second))).To(BeZero())
	g.Expect(h.evaluateAgent(cluster, start.Add(70*time.Second))).To(Equal(agentState{}))
}

func TestAnotherGraceCountsAtOnce(t *testing.T) {
	g := NewWithT(t)
	h := newHeartbeats()
	cluster := watched()
	h.observeLease(renewal(1), false, start)
	h.evaluateAgent(cluster, start)
	<-h.armed
	h.evaluateAgent(cluster, start)
	g.Expect(h.armed).NotTo(Receive(), "nothing new to look at")
	cluster.Spec.Heartbeat.GraceSeconds = 5
	h.evaluateAgent(cluster, start)
	g.Expect(h.armed).To(Receive())
	_, next := h.expiredClusters(start)
	g.Expect(next).To(Equal(5 * time.Second))
}

// An agent that was silent for as long as it may be has to prove that it is there, also if it was not looked at meanwhile.
func TestSilenceThatNobodySawIsSilence(t *testing.T) {
	for name, look := range map[string]func(*heartbeats){
		"before its deadline is seen to pass": func(*heartbeats) {},
		"before the reconcile": func(h *heartbeats) {
			if silent, _ := h.expiredClusters(start.Add(40 * time.Second)); len(silent) != 1 {
				t.Error("it is silent")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, h := NewWithT(t), newHeartbeats()
			connected := watched(v1alpha1.ClusterJoinedCondition, v1alpha1.ClusterAgentConnectedCondition)
			h.observeLease(renewal(1), false, start)
			h.evaluateAgent(connected, start)
			look(h)
			h.observeLease(renewal(2), false, start.Add(41*time.Second))
			g.Expect(h.isRenewed("c")).To(BeFalse())
			g.Expect(h.evaluateAgent(connected, start.Add(42*time.Second)).connected).To(BeFalse())
			g.Expect(h.observeLease(renewal(3), false, start.Add(51*time.Second))).To(BeTrue())
			g.Expect(h.evaluateAgent(connected, start.Add(52*time.Second)).connected).To(BeTrue())
			_, next := h.expiredClusters(start.Add(52 * time.Second))
			g.Expect(next).To(Equal(39*time.Second), "it is watched again")
		})
	}
}

func TestAnotherHolderIsNoLatecomer(t *testing.T) {
	g, h := NewWithT(t), newHeartbeats()
	h.observeLease(renewal(1), true, start)
	given := renewal(2)
	given.Spec.HolderIdentity = new("")
	g.Expect(h.observeLease(given, false, start)).To(BeFalse())
	g.Expect(h.isRenewed("c")).To(BeFalse(), "an agent that stops gives its Lease up")
	g.Expect(h.observeLease(renewal(3), false, start)).To(BeTrue(), "its successor has started by saying what it knows")
	g.Expect(h.isRenewed("c")).To(BeTrue())
}

// lease is the agent's Lease of a cluster, renewed at a time.
func lease(cluster string, at time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: v1alpha1.AgentLeaseName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("agent"), RenewTime: &metav1.MicroTime{Time: at}},
	}
}

// A thousand agents that renew their Leases cost no reconcile, and so no write, however long they do; the one that
// stops costs one, exactly at its deadline.
func TestThousandLeasesWakeNobody(t *testing.T) {
	g := NewWithT(t)
	clock := testclock.NewFakeClock(start)
	c := &Controller{Deps: Deps{Agents: &freeze.Agents{}, Clock: clock}, heartbeats: newHeartbeats()}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	const leases = 1000
	events := c.watchLeases()
	renew := func(i int) {
		name := fmt.Sprint("c", i)
		renewed := lease(name, clock.Now())
		events.Update(ctx, event.UpdateEvent{ObjectOld: renewed, ObjectNew: renewed}, q)
	}
	for i := range leases {
		renew(i)
		cluster := watched()
		cluster.Name, cluster.Status.Namespace = fmt.Sprint("c", i), fmt.Sprint("c", i)
		c.heartbeats.evaluateAgent(cluster, clock.Now())
	}
	for range q.Len() { // Each first renewal was news.
		request, _ := q.Get()
		q.Done(request)
	}
	g.Expect(c.watchSilences(ctx, q)).To(Succeed())
	const rounds = 30
	for range rounds {
		g.Eventually(clock.HasWaiters).WithTimeout(time.Minute).Should(BeTrue())
		clock.Step(10 * time.Second)
		for i := range leases {
			renew(i)
		}
	}
	g.Consistently(q.Len).WithTimeout(200*time.Millisecond).Should(BeZero(), "%d renewals", rounds*leases)
	for i := range leases - 1 { // The last one stops.
		clock.SetTime(clock.Now().Add(time.Millisecond))
		renew(i)
	}
	silentAt := start.Add(rounds*10*time.Second + 40*time.Second)
	g.Eventually(clock.HasWaiters).WithTimeout(time.Minute).Should(BeTrue())
	clock.SetTime(silentAt.Add(-time.Millisecond))
	g.Consistently(q.Len).WithTimeout(200*time.Millisecond).Should(BeZero(), "a millisecond before its deadline")
	g.Eventually(clock.HasWaiters).WithTimeout(time.Minute).Should(BeTrue())
	clock.SetTime(silentAt)
	g.Eventually(q.Len).WithTimeout(time.Minute).Should(Equal(1), "at its deadline")
	request, _ := q.Get()
	g.Expect(request.Name).To(Equal(fmt.Sprint("c", leases-1)))
}

func TestNewHubKnowsNoBetterThanTheOldOne(t *testing.T) {
	g := NewWithT(t)
	h := newHeartbeats()
	connected := watched(v1alpha1.ClusterJoinedCondition, v1alpha1.ClusterAgentConnectedCondition)
	h.observeLease(renewal(1), true, start)
	g.Expect(h.evaluateAgent(connected, start.Add(time.Second))).To(Equal(agentState{connected: true, seen: true}), "connected stays for one grace period")
	g.Expect(h.evaluateAgent(connected, start.Add(40*time.Second)).connected).To(BeFalse(), "and no longer without a renewal")

	h = newHeartbeats()
	silent := watched(v1alpha1.ClusterJoinedCondition)
	h.observeLease(renewal(1), true, start)
	g.Expect(h.evaluateAgent(silent, start)).To(Equal(agentState{seen: true}), "a Lease of unknown age does not make a silent agent connected")
	g.Expect(h.observeLease(renewal(2), false, start.Add(time.Second))).To(BeFalse(), "it may be from before that hub")
	g.Expect(h.evaluateAgent(silent, start.Add(time.Second)).connected).To(BeFalse())
	g.Expect(h.observeLease(renewal(3), false, start.Add(2*time.Second))).To(BeTrue())
	g.Expect(h.evaluateAgent(silent, start.Add(2*time.Second)).connected).To(BeTrue())

	h = newHeartbeats()
	g.Expect(h.evaluateAgent(connected, start).connected).To(BeTrue(), "no Lease at all is no proof of silence either")
	g.Expect(h.evaluateAgent(connected, start.Add(40*time.Second)).connected).To(BeFalse())
}

func TestLeaseOfANamespaceThatIsNotTheClustersCountsForNothing(t *testing.T) {
	g := NewWithT(t)
	h := newHeartbeats()
	cluster := watched()
	cluster.Status.Namespace = ""
	h.observeLease(renewal(1), false, start)
	g.Expect(h.evaluateAgent(cluster, start)).To(Equal(agentState{}))
}

// Who may write Leases in any namespace must not fill the hub's memory with them.
// Edge case: Foreign Leases were remembered.
func TestOthersLeasesAreForgottenWhenTheyAreGone(t *testing.T) {
	g := NewWithT(t)
	c := &Controller{Deps: Deps{Clock: testclock.NewFakeClock(start), Agents: &freeze.Agents{}}, heartbeats: newHeartbeats()}
	leases := c.watchLeases()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	other := renewal(1)
	other.Namespace = "other"
	for _, lease := range []*coordinationv1.Lease{renewal(1), other} {
		leases.Create(t.Context(), event.CreateEvent{Object: lease}, queue)
	}
	c.heartbeats.evaluateAgent(watched(), start)
	for _, lease := range []*coordinationv1.Lease{renewal(1), other} {
		leases.Delete(t.Context(), event.DeleteEvent{Object: lease}, queue)
	}
	g.Expect(c.heartbeats.clusters).To(And(HaveLen(1), HaveKey("c")), "what is known of a cluster's agent stays")
}
