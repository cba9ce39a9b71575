package cli

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func TestStateOfTheHub(t *testing.T) {
	g := NewWithT(t)
	renewed := metav1.NewMicroTime(now.Add(-4 * time.Second))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.VersionLabel: "v0.2.0_dirty"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("hub-1"), RenewTime: &renewed, LeaseDurationSeconds: new(int32(15))},
	}
	g.Expect(stateOf(lease, now)).To(Equal(hubState{version: "v0.2.0+dirty", holder: "hub-1", renewed: 4 * time.Second}))
	g.Expect(stateOf(lease, now.Add(-time.Minute)).problem).To(BeEmpty(), "a clock that is behind")
	g.Expect(stateOf(lease, now.Add(time.Minute)).problem).To(Equal("the hub hub-1 has not renewed its Lease for 1m4s"))
	lease.Labels, lease.Spec.HolderIdentity = nil, new("")
	g.Expect(stateOf(lease, now)).To(Equal(hubState{version: unknown, problem: "no hub holds the Lease: the last one has stopped"}))
}

func machine(name string, phase v1alpha1.MachinePhase, ready metav1.ConditionStatus, since time.Duration) v1alpha1.Machine {
	return v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: name}, Status: v1alpha1.MachineStatus{
		Phase:      phase,
		Conditions: []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: ready, Reason: "Why", LastTransitionTime: ago(since)}},
	}}
}

func TestSummaryShowsTheWorstFirst(t *testing.T) {
	g := NewWithT(t)
	f := &fleet{now: now, hub: hubState{version: "v0.2.0", holder: "hub-1", renewed: time.Second}, clusters: []v1alpha1.Cluster{
		{ObjectMeta: metav1.ObjectMeta{Name: "new"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "fine"}, Status: v1alpha1.ClusterStatus{Conditions: []metav1.Condition{
			{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue}, {Type: v1alpha1.ClusterAgentConnectedCondition, Status: metav1.ConditionTrue},
		}}},
	}}
	f.machines = []v1alpha1.Machine{
		machine("well", v1alpha1.MachineRunning, metav1.ConditionTrue, time.Hour),
		machine("young", v1alpha1.MachinePending, metav1.ConditionFalse, time.Minute),
		machine("old", v1alpha1.MachinePending, metav1.ConditionFalse, time.Hour),
		machine("failed", v1alpha1.MachineFailed, metav1.ConditionFalse, time.Second),
	}
	s := f.summarize()
	g.Expect(s.lines).To(HaveExactElements(
		"Hub:         works: hub-1, version v0.2.0, Lease renewed 1s ago",
		"Clusters:    2: 1 ready, 1 with a connected agent, 0 frozen",
		"Deployments: 0: 0 available, 0 that the hub has not worked on since their last change",
		HavePrefix("Machines:    4: 1 ready, 1 failed, 0 stale")))
	var names []any
	for _, row := range s.machines.Rows {
		names = append(names, row.Cells[1])
	}
	g.Expect(names).To(HaveExactElements("failed", "old", "young"))
	g.Expect(s.clusters.Rows).To(HaveExactElements(HaveField("Cells", HaveExactElements("new", "Unknown (Pending)", "-", ""))))
	g.Expect(s.problems).To(HaveExactElements("1 of 2 clusters not ready", "1 of 4 Machines failed"))
	for range 20 {
		f.machines = append(f.machines, machine("more", v1alpha1.MachinePending, metav1.ConditionFalse, time.Hour))
	}
	g.Expect(f.summarize().machines.Rows).To(HaveLen(mostMachines))
}
