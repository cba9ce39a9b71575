package loadtest

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fanout"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/loadtest/preset"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
)

// view is a World whose objects are found by the names of their clusters.
type view struct {
	*World
	clusters    map[string]*v1alpha1.Cluster
	runs        map[string]*v1alpha1.LoadTestRun
	disruptions map[string]*v1alpha1.NodeDisruptionRun
}

func newView(w *World) *view {
	v := &view{w, map[string]*v1alpha1.Cluster{}, map[string]*v1alpha1.LoadTestRun{}, map[string]*v1alpha1.NodeDisruptionRun{}}
	for i := range w.Clusters {
		v.clusters[w.Clusters[i].Name] = &w.Clusters[i]
	}
	for i := range w.Runs {
		v.runs[w.Runs[i].Namespace] = &w.Runs[i]
	}
	for i := range w.Disruptions {
		v.disruptions[w.Disruptions[i].Namespace] = &w.Disruptions[i]
	}
	return v
}

// chosenClusters are the clusters that the test is for, by name: those that have a run of it, and the accepted ones that are chosen. The
// error is an *outcome.Wait while it is not known which these are; else only another spec helps.
func (w *view) chosenClusters() ([]*v1alpha1.Cluster, error) {
	chosen, err := w.Chosen(w.Test.Spec.ClusterSelector, w.Test.Spec.PlacementRef)
	if wanted := w.Test.Spec.Preset; err == nil && wanted != nil {
		if err = preset.Check(wanted); err != nil {
			err = &outcome.Terminal{Message: "spec.preset: " + err.Error()}
		}
	}
	for _, run := range w.ownRuns() {
		if cluster := w.clusters[run.Namespace]; cluster != nil && !slices.Contains(chosen, cluster) {
			chosen = append(chosen, cluster)
		}
	}
	slices.SortFunc(chosen, func(a, b *v1alpha1.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	return chosen, err
}

// parentOf is what the runs of a test, and the disruptions beside them, belong to.
func parentOf(test *v1alpha1.LoadTest) fanout.Parent {
	return fanout.Parent{Object: test, Kind: "LoadTest", Label: v1alpha1.LoadTestNameLabel}
}

// whyNotStart says why nothing may start in the cluster of a name now; empty if it may.
func (w *view) whyNotStart(cluster string) string {
	return freeze.OfStart(cluster, w.clusters[cluster]).Message
}

// ownerIn says whose the run of the test's name in a cluster is.
func (w *view) ownerIn(cluster string) fanout.Owner {
	if run := w.runs[cluster]; run != nil {
		return parentOf(w.Test).OwnerOf(run)
	}
	return fanout.NoOne
}

// ownRuns are the test's runs, by the names of their clusters.
func (w *view) ownRuns() []*v1alpha1.LoadTestRun {
	var runs []*v1alpha1.LoadTestRun
	for i := range w.Runs {
		if parentOf(w.Test).OwnerOf(&w.Runs[i]) == fanout.Ours {
			runs = append(runs, &w.Runs[i])
		}
	}
	slices.SortFunc(runs, func(a, b *v1alpha1.LoadTestRun) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return runs
}

// newRun is the run of a cluster, which waits for its time to start.
func (w *view) newRun(cluster *v1alpha1.Cluster) (v1alpha1.LoadTestRun, error) {
	run := v1alpha1.LoadTestRun{ObjectMeta: parentOf(w.Test).NewMeta(cluster.Name, w.Test.Name)}
	load, _, err := w.loadFor(cluster)
	run.Spec.Load, run.Spec.WithStartTime = load, true
	return run, err
}

// loadFor is what is done in a cluster, and which Nodes fail there.
func (w *view) loadFor(cluster *v1alpha1.Cluster) (load v1alpha1.Load, disruption *v1alpha1.Disruption, err error) {
	if wanted := w.Test.Spec.Preset; wanted != nil {
		nodes := int32(0)
		if cluster.Status.Machines != nil {
			nodes = cluster.Status.Machines.Ready
		}
		load, disruption, err = preset.Expand(wanted, nodes)
	} else {
		load = *w.Test.Spec.Load.DeepCopy()
	}
	if w.Test.Spec.Disruption != nil {
		disruption = w.Test.Spec.Disruption.DeepCopy()
	}
	return load, disruption, err
}

// hasDisruption reports whether Nodes fail during the test.
func (w *view) hasDisruption() bool {
	return w.Test.Spec.Disruption != nil || w.Test.Spec.Preset != nil && preset.HasDisruption(w.Test.Spec.Preset.Name)
}

// loadThresholds are those of the load.
func (w *view) loadThresholds() []v1alpha1.LoadThreshold {
	if w.Test.Spec.Load != nil {
		return w.Test.Spec.Load.Thresholds
	}
	return preset.Thresholds(w.Test.Spec.Preset)
}

// isOver reports whether nothing happens to a run any more.
func isOver(run *v1alpha1.LoadTestRun) bool {
	return run.DecodeError != "" || run.Status.Phase == v1alpha1.LoadTestRunPhaseCompleted || run.Status.Phase == v1alpha1.LoadTestRunPhaseFailed
}

// isMeasured reports whether a run measures nothing any more.
func isMeasured(run *v1alpha1.LoadTestRun) bool {
	return isOver(run) || run.Status.Phase == v1alpha1.LoadTestRunPhaseCleaningUp
}

// disconnectedSince is since when a cluster's agent has not been connected; zero if it is.
func disconnectedSince(cluster *v1alpha1.Cluster) time.Time {
	connected := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition)
	if connected == nil || connected.Status == metav1.ConditionTrue {
		return time.Time{}
	}
	return connected.LastTransitionTime.Time
}
