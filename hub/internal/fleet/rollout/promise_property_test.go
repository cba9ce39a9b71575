package rollout

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/seeds"
)

// startedBy is what a rollout started with: the spec, and the labels of the clusters.
type startedBy struct {
	fleet  *v1alpha1.MachineFleet
	labels map[string]map[string]string
}

func (w *simulation) present() startedBy {
	all := startedBy{w.fleet.DeepCopy(), map[string]map[string]string{}}
	for _, cluster := range w.clusters {
		all.labels[cluster.Name] = maps.Clone(cluster.Labels)
	}
	return all
}

// isOpen reports whether a spec allows a start in a cluster with such labels, by other means than the controller's.
func (s startedBy) isOpen(t *rapid.T, has map[string]string, now time.Time) bool {
	chosen := func(from *metav1.LabelSelector) bool {
		selector, err := metav1.LabelSelectorAsSelector(from)
		if err != nil {
			t.Fatal(err)
		}
		return from == nil || selector.Matches(labels.Set(has))
	}
	for i := range s.fleet.Spec.MaintenanceExclusions {
		e := &s.fleet.Spec.MaintenanceExclusions[i]
		from, err := time.Parse(time.DateOnly, e.Start)
		to, otherErr := time.Parse(time.DateOnly, e.End)
		if err != nil || otherErr != nil {
			t.Fatal(err, otherErr)
		}
		if chosen(e.ClusterSelector) && !now.Before(from) && now.Before(to.AddDate(0, 0, 1)) {
			return false
		}
	}
	chooses, open := false, false
	for i := range s.fleet.Spec.MaintenanceWindows {
		w := &s.fleet.Spec.MaintenanceWindows[i]
		var hour int
		if _, err := fmt.Sscanf(w.Schedule, "0 %d * * *", &hour); err != nil {
			t.Fatal(err)
		}
		opened := time.Date(now.Year(), now.Month(), now.Day(), hour, 0, 0, 0, time.UTC)
		for _, at := range []time.Time{opened, opened.AddDate(0, 0, -1)} {
			open = open || chosen(w.ClusterSelector) && !now.Before(at) && now.Before(at.Add(w.Duration.Duration))
		}
		chooses = chooses || chosen(w.ClusterSelector)
	}
	return !chooses || open
}

var labelValues = []string{"canary", "east", "west", ""}

func drawSelector(t *rapid.T) *metav1.LabelSelector {
	if rapid.IntRange(0, 3).Draw(t, "all clusters") == 0 {
		return nil
	}
	return choose(rapid.SliceOfN(rapid.SampledFrom(labelValues[:3]), 1, 2).Draw(t, "clusters")...)
}

var windowEdits = map[string]func(*rapid.T, *simulation){
	"windows": func(t *rapid.T, w *simulation) {
		w.fleet.Spec.MaintenanceWindows = nil
		for i := range rapid.IntRange(0, 3).Draw(t, "windows") {
			w.fleet.Spec.MaintenanceWindows = append(w.fleet.Spec.MaintenanceWindows, v1alpha1.MaintenanceWindow{
				Name: fmt.Sprint(i), Schedule: fmt.Sprintf("0 %d * * *", rapid.IntRange(0, 23).Draw(t, "hour")),
				Duration: metav1.Duration{Duration: time.Duration(rapid.IntRange(1, 24*60).Draw(t, "minutes")) * time.Minute}, ClusterSelector: drawSelector(t),
			})
		}
	},
	"exclusions": func(t *rapid.T, w *simulation) {
		w.fleet.Spec.MaintenanceExclusions = nil
		for i := range rapid.IntRange(0, 2).Draw(t, "exclusions") {
			day := rapid.IntRange(1, 4).Draw(t, "day")
			w.fleet.Spec.MaintenanceExclusions = append(w.fleet.Spec.MaintenanceExclusions, v1alpha1.MaintenanceExclusion{
				Name: fmt.Sprint(i), Start: fmt.Sprintf("2026-01-%02d", day), End: fmt.Sprintf("2026-01-%02d", day+rapid.IntRange(0, 2).Draw(t, "days")), ClusterSelector: drawSelector(t),
			})
		}
	},
	"a label": func(t *rapid.T, w *simulation) {
		cluster := rapid.SampledFrom(w.clusters).Draw(t, "cluster")
		cluster.Labels = map[string]string{}
		if value := rapid.SampledFrom(labelValues).Draw(t, "value"); value != "" {
			cluster.Labels["group"] = value
		}
	},
	"maxConcurrency": func(t *rapid.T, w *simulation) {
		w.fleet.Spec.RolloutStrategy.Progressive.MaxConcurrency = intstr.FromInt(rapid.IntRange(1, 4).Draw(t, "maxConcurrency"))
	},
	"another template": func(t *rapid.T, w *simulation) {
		w.fleet.Spec.AllowDowngrade = true
		w.fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet = rapid.SampledFrom([]string{"v1.37.0", "v1.37.1"}).Draw(t, "version")
	},
	"a retry": func(_ *rapid.T, w *simulation) { w.retry() },
}

// TestNoEditOpensWindowsOrExclusions plays rollouts in which windows, exclusions and labels are edited, by hubs that know no more than
// what is kept. No cluster is started outside of the windows that the spec has now, nor of those that it had when the rollout started.
// Claim: No edit opens a window mid-rollout until `rollout retry`. Broken: the promise of windows is not applied; not looked at before a write. Also: TestNoEditOpensAWindow, hub/internal/fleet TestAWindowThatIsTakenAwayHoldsUntilARetry, hub/internal/fleet TestThePromisedWindowIsLookedAtBeforeEachWrite.
func TestNoEditOpensWindowsOrExclusions(t *testing.T) {
	seeds.UseMany(t, 1500)
	kinds := slices.Sorted(maps.Keys(windowEdits))
	begun, kept := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newSimulation(t, rapid.IntRange(1, 4).Draw(t, "clusters"))
		w.bounds("progressive")
		windowEdits["windows"](t, w)
		windowEdits["exclusions"](t, w)
		var then *startedBy
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "edits") {
				windowEdits[rapid.SampledFrom(kinds).Draw(t, "edit")](t, w)
			}
			now, before := w.present(), w.kept
			started := w.step()
			if w.kept != before { // A new promise.
				then = &now
			}
			for _, name := range started {
				begun++
				if !now.isOpen(t, now.labels[name], w.now) {
					t.Fatalf("%s is started at %s outside of its windows", name, w.now)
				}
				if !then.isOpen(t, then.labels[name], w.now) {
					t.Fatalf("%s is started at %s outside of the windows that it had when the rollout started", name, w.now)
				}
			}
			if then != nil && then.isOpen(t, then.labels["c0"], w.now) != now.isOpen(t, now.labels["c0"], w.now) {
				kept++
			}
			w.pass(time.Duration(rapid.IntRange(0, 600).Draw(t, "minutes")) * time.Minute)
			w.report(false, w.names()...)
		}
	})
	t.Logf("%d clusters were started; %d times the windows then and now were not open together", begun, kept)
	if begun == 0 || kept == 0 {
		t.Error("it shows nothing")
	}
}
