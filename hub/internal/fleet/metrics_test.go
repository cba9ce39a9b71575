package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// scraped are the fleet's metrics without the prefix of all, such as clusters{Soaking}.
func (f *env) scraped() map[string]float64 {
	f.T.Helper()
	collector := &Collector{}
	defer collector.controllers.Add(f.logic)()
	return f.collected(collector)
}

func (f *env) collected(collector *Collector) map[string]float64 {
	f.T.Helper()
	registry := prometheus.NewPedanticRegistry()
	f.Expect(registry.Register(collector)).To(Succeed())
	families, err := registry.Gather()
	f.Expect(err).NotTo(HaveOccurred())
	all := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			mine := false
			for _, pair := range metric.GetLabel() {
				if pair.GetName() == "fleet" {
					mine = pair.GetValue() == f.fleet.Name
					continue
				}
				labels = append(labels, pair.GetValue())
			}
			if mine {
				name := strings.TrimPrefix(family.GetName(), "hollowfleet_hub_fleet_")
				all[name+strings.TrimSuffix("{"+strings.Join(labels, ",")+"}", "{}")] = metric.GetGauge().GetValue()
			}
		}
	}
	return all
}

// expect compares some of the fleet's metrics; -1 is for one that there is not.
func (f *env) expectMetrics(when string, want map[string]float64) {
	f.T.Helper()
	have := f.scraped()
	for name, value := range want {
		if value < 0 {
			f.Expect(have).NotTo(HaveKey(name), "%s: %v", when, have)
			continue
		}
		f.Expect(have).To(HaveKeyWithValue(name, BeNumerically("~", value, 0.001)), when)
	}
}

// Claim: Fleet metrics follow rollouts and end. Broken: new. Also: TestMetricsShowWhatHoldsAFleet, TestMetricsShowClustersThatWait, TestMetricsEndWithTheirFleetAndWithTheLeadership; hub TestAHubThatStandsByTellsNothingOfTheFleet.
func TestMetricsFollowARollout(t *testing.T) {
	f := newEnv(t, 3, func(fleet *v1alpha1.MachineFleet) {
		inSteps(2, time.Hour)(fleet)
		fleet.Spec.Groups = append(fleet.Spec.Groups, v1alpha1.MachineFleetGroup{
			Name: "rest", ClusterSelector: &metav1.LabelSelector{}, Approval: v1alpha1.GroupApprovalRequired,
		})
	})
	f.expectMetrics("before the hub has looked", map[string]float64{
		"unobserved": 1, "ready": 0, "clusters{Waiting}": -1, "breached": -1, "waves": -1, "machines{total}": -1, "progress_deadline_seconds": 1800,
	})
	f.ExpectReconciled(f.fleet)
	began := float64(f.Clock.Now().UnixMilli()) / 1000
	f.status()
	f.expectMetrics("started in the first cluster", map[string]float64{
		"unobserved": 0, "clusters{Progressing}": 1, "clusters{Waiting}": 2, "selected_clusters": 3, "current_wave": 1, "waves": 2, "rollout_complete": 0,
		"rollout_start_timestamp_seconds": began, "last_progress_timestamp_seconds": began, "soak_remaining_seconds": -1, "breached": 0, "held_clusters": 0,
	})
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	soaks := float64(f.Clock.Now().UnixMilli()) / 1000
	f.status()
	f.expectMetrics("soaking", map[string]float64{
		"clusters{Soaking}": 1, "soak_remaining_seconds": time.Hour.Seconds() - countsInterval.Longest.Seconds(),
		"rollout_start_timestamp_seconds": began, "last_progress_timestamp_seconds": soaks, "machines{available}": 3, "machines{updated}": 3,
	})
	f.Clock.Step(2 * time.Hour)
	f.expectMetrics("a soak that is over, which the hub has not noticed", map[string]float64{"clusters{Soaking}": 1, "soak_remaining_seconds": 0})
	f.ExpectReconciled(f.fleet)
	f.status()
	f.expectMetrics("waiting for an approval", map[string]float64{
		"clusters{Updated}": 1, "clusters{Waiting}": 2, "groups_awaiting_approval": 1, "soak_remaining_seconds": -1, "clusters_awaiting_window": 0, "ready": 0,
	})
	f.restart()
	f.expectMetrics("a hub that has just taken over does not say what it has not found", map[string]float64{
		"clusters{Updated}": 1, "groups_awaiting_approval": -1, "breached": -1, "rollout_start_timestamp_seconds": -1, "machines{total}": -1,
	})
	f.ExpectReconciled(f.fleet)
	f.expectMetrics("the next hub finds the same", map[string]float64{"groups_awaiting_approval": 1, "rollout_start_timestamp_seconds": began})
}

func TestMetricsShowWhatHoldsAFleet(t *testing.T) {
	f := newEnv(t, 3, inSteps(1, 0))
	f.ExpectReconciled(f.fleet)
	f.says(true, 0)
	f.ExpectReconciled(f.fleet)
	f.status()
	f.expectMetrics("a failure too many", map[string]float64{"breached": 1, "clusters{Failed}": 1, "stalled": 1, "ready": 0, "rollout_complete": 0})
	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Paused = true })
	f.expectMetrics("a hub that stands still does not look well", map[string]float64{"unobserved": 1, "paused": 1})
	f.ExpectReconciled(f.fleet)
	f.status()
	f.expectMetrics("paused", map[string]float64{"unobserved": 0, "breached": 1})
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Paused = false
		fleet.Spec.MaintenanceWindows = []v1alpha1.MaintenanceWindow{*windowOf("0 0 30 2 *", "UTC", time.Hour)}
	})
	f.ExpectReconciled(f.fleet)
	f.status()
	f.expectMetrics("an invalid one", map[string]float64{"breached": -1, "machines{total}": 3, "stalled": 1})
}

func TestMetricsShowClustersThatWait(t *testing.T) {
	f := newEnv(t, 3, func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.MaintenanceWindows = []v1alpha1.MaintenanceWindow{*windowOf("0 0 1 7 *", "UTC", time.Hour)}
	})
	f.freeze(0, true)
	f.ExpectReconciled(f.fleet)
	f.status()
	f.expectMetrics("frozen, and outside of its window", map[string]float64{
		"held_clusters": 1, "clusters_awaiting_window": 2, "breached": 0, "rollout_start_timestamp_seconds": -1, "last_progress_timestamp_seconds": -1, "frozen": 0,
	})
}

// A hub that was deposed, and a fleet that is deleted, have no series, and ten fleets of a cluster have as many as ten of a hundred.
func TestMetricsEndWithTheirFleetAndWithTheLeadership(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.ExpectReconciled(f.fleet)
	f.status()
	collector := &Collector{}
	depose := collector.controllers.Add(f.logic)
	takeOver := collector.controllers.Add(f.logic)
	f.Expect(len(f.collected(collector))).To(And(BeNumerically(">", 20), BeNumerically("<", 40)), "once, though two hubs of this process have it")
	takeOver()
	depose()
	f.Expect(f.collected(collector)).To(BeEmpty())
	f.Expect(f.scraped()).NotTo(BeEmpty())
	f.ExpectDeleted(f.refresh())
	f.Eventually(func() error {
		f.ExpectReconciled(f.fleet)
		return client.IgnoreNotFound(f.Client.Get(t.Context(), client.ObjectKeyFromObject(f.fleet), f.fleet))
	}).Should(Succeed())
	uid := f.fleet.UID
	f.Eventually(f.scraped).Should(BeEmpty())
	_, known := f.logic.standings.ValueOf(uid)
	f.Expect(known).To(BeFalse(), fmt.Sprint(uid))
}
