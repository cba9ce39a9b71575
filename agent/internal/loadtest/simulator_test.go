package loadtest

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLateHeartbeats(t *testing.T) {
	g := NewWithT(t)
	now := time.Unix(1000, 0)
	lease := func(name string, age time.Duration) coordinationv1.Lease {
		renewed := metav1.NewMicroTime(now.Add(-age))
		return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	}
	s := newSimulator()
	hollow := map[string]bool{"a": true, "b": true, "c": true, "d": true}
	s.heartbeats([]coordinationv1.Lease{lease("a", 19*time.Second), lease("b", 21*time.Second), lease("c", time.Hour), lease("real", time.Hour), {ObjectMeta: metav1.ObjectMeta{Name: "d"}}},
		hollow, map[string]bool{"c": true}, now)
	report, _ := s.report(0, 0)
	g.Expect(report).To(And(HaveField("Nodes", BeEquivalentTo(2)), HaveField("LateHeartbeats", BeEquivalentTo(1))))
	s.heartbeats([]coordinationv1.Lease{lease("b", 0), lease("c", time.Hour)}, hollow, nil, now)
	report, _ = s.report(0, 0)
	g.Expect(report).To(And(HaveField("Nodes", BeEquivalentTo(2)), HaveField("LateHeartbeats", BeEquivalentTo(1))),
		"one that was late once was late, and one that was disrupted does not count any more")
	s.heartbeats(nil, hollow, map[string]bool{"b": true}, now)
	report, _ = s.report(0, 0)
	g.Expect(report).To(And(HaveField("Nodes", BeEquivalentTo(1)), HaveField("LateHeartbeats", BeZero())))
}
