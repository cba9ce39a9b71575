package loadtest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/loadtest/preset"
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
// problem is one that only another spec solves.
func (w *view) chosenClusters() (chosen []*v1alpha1.Cluster, problem string) {
	matches := func(cluster *v1alpha1.Cluster) bool { return w.Placed[cluster.Name] }
	if w.Test.Spec.PlacementRef == nil {
		selector, err := metav1.LabelSelectorAsSelector(w.Test.Spec.ClusterSelector)
		if err != nil {
			return nil, fmt.Sprintf("spec.clusterSelector: %v", err)
		}
		matches = func(cluster *v1alpha1.Cluster) bool { return selector.Matches(labels.Set(cluster.Labels)) }
	}
	if wanted := w.Test.Spec.Preset; wanted != nil {
		if err := preset.Check(wanted); err != nil {
			return nil, "spec.preset: " + err.Error()
		}
	}
	for i := range w.Clusters {
		if cluster := &w.Clusters[i]; cluster.Accepted() && matches(cluster) || w.ownerIn(cluster.Name) == ours {
			chosen = append(chosen, cluster)
		}
	}
	slices.SortFunc(chosen, func(a, b *v1alpha1.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	return chosen, ""
}

// explainUnfit says why nothing may start in a cluster; empty if it may.
func (w *view) explainUnfit(cluster *v1alpha1.Cluster) string {
	if frozen := freeze.OfCluster(cluster.Name, cluster.Name, cluster); frozen.Frozen {
		return "left out, because it is frozen: " + frozen.Message
	}
	if connected := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition); connected == nil {
		return "left out, because its agent has never been connected"
	} else if connected.Status != metav1.ConditionTrue {
		return "left out, because its agent is not connected: " + connected.Message
	}
	return ""
}

// owner is whose the run of the test's name in a cluster is.
type owner int

const (
	// none: there is no such run. ours is the test's, leftover that of a deleted test of the same name.
	none owner = iota
	ours
	leftover
	others
)

func (w *view) ownerIn(cluster string) owner {
	if run := w.runs[cluster]; run != nil {
		return w.ownerOf(&run.ObjectMeta)
	}
	return none
}

func (w *view) ownerOf(object *metav1.ObjectMeta) owner {
	switch controller := metav1.GetControllerOf(object); {
	case controller == nil:
		return others
	case controller.UID == w.Test.UID:
		return ours
	case controller.Kind == "LoadTest" && controller.Name == w.Test.Name:
		return leftover
	}
	return others
}

// ownRuns are the test's runs, by the names of their clusters.
func (w *view) ownRuns() []*v1alpha1.LoadTestRun {
	var runs []*v1alpha1.LoadTestRun
	for i := range w.Runs {
		if w.ownerOf(&w.Runs[i].ObjectMeta) == ours {
			runs = append(runs, &w.Runs[i])
		}
	}
	slices.SortFunc(runs, func(a, b *v1alpha1.LoadTestRun) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return runs
}

// newRun is the run of a cluster, which waits for its time to start.
func (w *view) newRun(cluster *v1alpha1.Cluster) (v1alpha1.LoadTestRun, error) {
	run := v1alpha1.LoadTestRun{ObjectMeta: w.newMeta(cluster.Name, w.Test.Name)}
	load, _, err := w.loadFor(cluster)
	run.Spec.Load, run.Spec.WithStartTime = load, true
	return run, err
}

// newMeta is that of what is made for the test in a cluster. The name follows from the test's, so that nothing is made twice. When
// the test is deleted the API server's garbage collector deletes it, and the agents remove what there is of it.
func (w *view) newMeta(cluster, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: cluster, Name: name, Labels: map[string]string{v1alpha1.LoadTestNameLabel: w.Test.Name},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "LoadTest", Name: w.Test.Name, UID: w.Test.UID, Controller: new(true),
		}},
	}
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

// isOver reports whether nothing becomes of a run any more.
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
