package cluster

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// renewal is the Lease of cluster c at its nth renewal.
func renewal(n int) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "c", Name: v1alpha1.AgentLeaseName},
		// A wrong clock in the workload cluster must not matter.
		Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: start.AddDate(-20, 0, n)}},
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

func TestHeartbeats(t *testing.T) {
	g := NewWithT(t)
	var h heartbeats
	cluster := watched()
	g.Expect(h.judge(cluster, start)).To(Equal(verdict{}), "nothing seen")
	g.Expect(h.observe(renewal(1), false, start)).To(BeTrue(), "the first renewal is news")
	g.Expect(h.judge(cluster, start)).To(Equal(verdict{connected: true, seen: true, expires: 40 * time.Second}))
	g.Expect(h.observe(renewal(2), false, start.Add(10*time.Second))).To(BeFalse(), "the next is none")
	g.Expect(h.observe(renewal(2), false, start.Add(30*time.Second))).To(BeFalse(), "the same again is no renewal")
	g.Expect(h.judge(cluster, start.Add(40*time.Second))).To(Equal(verdict{connected: true, seen: true, expires: 10 * time.Second}))
	g.Expect(h.judge(cluster, start.Add(50*time.Second))).To(Equal(verdict{seen: true}), "at expiry it is silent")
	g.Expect(h.observe(renewal(3), false, start.Add(60*time.Second))).To(BeTrue(), "a renewal after silence is news")
	g.Expect(h.judge(cluster, start.Add(60*time.Second)).connected).To(BeTrue())
	h.forget("c")
	g.Expect(h.judge(cluster, start.Add(60*time.Second))).To(Equal(verdict{}))
}

func TestNewHubKnowsNoBetterThanTheOldOne(t *testing.T) {
	g := NewWithT(t)
	var h heartbeats
	connected := watched(v1alpha1.ClusterJoinedCondition, v1alpha1.ClusterAgentConnectedCondition)
	h.observe(renewal(1), true, start)
	g.Expect(h.judge(connected, start.Add(time.Second))).To(Equal(verdict{connected: true, seen: true, expires: 39 * time.Second}), "connected stays for one grace period")
	g.Expect(h.judge(connected, start.Add(40*time.Second)).connected).To(BeFalse(), "and no longer without a renewal")

	h = heartbeats{}
	silent := watched(v1alpha1.ClusterJoinedCondition)
	h.observe(renewal(1), true, start)
	g.Expect(h.judge(silent, start)).To(Equal(verdict{seen: true}), "a Lease of unknown age does not make a silent agent connected")
	g.Expect(h.observe(renewal(2), false, start.Add(time.Second))).To(BeTrue())
	g.Expect(h.judge(silent, start.Add(time.Second)).connected).To(BeTrue())

	h = heartbeats{}
	g.Expect(h.judge(connected, start).connected).To(BeTrue(), "no Lease at all is no proof of silence either")
	g.Expect(h.judge(connected, start.Add(40*time.Second)).connected).To(BeFalse())
}

func TestLeaseOfANamespaceThatIsNotTheClustersCountsForNothing(t *testing.T) {
	g := NewWithT(t)
	var h heartbeats
	cluster := watched()
	cluster.Status.Namespace = ""
	h.observe(renewal(1), false, start)
	g.Expect(h.judge(cluster, start)).To(Equal(verdict{}))
}
