package rollout

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Each bound of a deletion holds it alone, what is held or being deleted already takes no room, and the next look is at the first window.
func TestEachBoundOfADeletion(t *testing.T) {
	g := NewWithT(t)
	now := time.Unix(10_000, 0)
	gone := func(name string, change func(*Member)) *Member {
		m := &Member{Cluster: &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, Deployment: &v1alpha1.MachineDeployment{}, leftSince: now.Add(-SettleTime)}
		if change != nil {
			change(m)
		}
		return m
	}
	opens := func(in time.Duration) func(*Member) {
		return func(m *Member) { m.closed, m.opensAt = true, now.Add(in) }
	}
	s := &Scope{Fleet: &v1alpha1.MachineFleet{}, Now: now, Left: []*Member{
		gone("settling", func(m *Member) { m.leftSince = m.leftSince.Add(1) }), gone("silent", func(m *Member) { m.silent = true }), gone("closed", opens(2*time.Hour)),
		gone("first", opens(time.Hour)), gone("last", opens(3*time.Hour)), gone("frozen", func(m *Member) { m.held = "frozen" }),
		gone("deleted", func(m *Member) { m.Deployment.DeletionTimestamp = new(metav1.NewTime(now)) }),
		gone("frozen and deleted", func(m *Member) { m.held, m.Deployment.DeletionTimestamp = "frozen", new(metav1.NewTime(now)) }), gone("a", nil), gone("b", nil),
		gone("deleted too", func(m *Member) { m.Deployment.DeletionTimestamp = new(metav1.NewTime(now)) }),
	}}
	due, waiting := s.dueRemovals(9)
	g.Expect(append(due, waiting...)).To(BeEmpty(), "Orphan is the default")
	s.Fleet.Spec.RemovalPolicy = v1alpha1.RemovalDelete
	waits := []string{"settling", "silent", "closed", "first", "last"}
	for room, want := range [][2][]string{{nil, append(waits, "a", "b")}, {{"a"}, append(waits, "b")}, {{"a", "b"}, waits}, {{"a", "b"}, waits}} {
		due, waiting = s.dueRemovals(room)
		g.Expect([2][]string{namesOf(due), namesOf(waiting)}).To(Equal(want), "room for %d", room)
	}
	g.Expect(s.countDeleting()).To(Equal(2))
	g.Expect(s.RemovalOpensAt(Decision{removalsWaiting: waiting})).To(Equal(now.Add(time.Hour)))
	g.Expect(s.RemovalOpensAt(Decision{removalsWaiting: waiting[:2]})).To(BeZero(), "no window is closed")
}
