// Package loadtest makes the LoadTestRuns of LoadTests, one in each cluster that is chosen, lets them start together, and merges
// what the clusters' agents have measured.
package loadtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fanout"
	"github.com/hollowfleet/hollowfleet/hub/internal/loadtest/preset"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const (
	// startLead is how long before their beginning runs are told of it, and leadPerRun how much longer for each of them: telling one takes
	// a request of the hub, and its agent looks once a second.
	startLead, leadPerRun = 3 * time.Second, 20 * time.Millisecond
	// lateStart is how late a run may still be told. After that it would not be together with the others.
	lateStart = 10 * time.Second
	// lostAfter is how long an agent may be away, and a run late, before the hub does not wait for it any more.
	lostAfter = 2 * time.Minute
	// cleanupTimeout is how long the hub waits for runs to remove what they made.
	cleanupTimeout = 10 * time.Minute
	// disruptionSuffix is the end of the name of the NodeDisruptionRun beside a run. A NodeDisruption of the test's name may be there.
	disruptionSuffix = "-load-test"
)

// World is what a decision rests on. Nothing in it is changed.
type World struct {
	Now  time.Time
	Test *v1alpha1.LoadTest
	fanout.Selection
	// Runs are all runs of the test's name, also those of others and such as cannot be decoded. Histograms, series and errors may
	// be left out. Disruptions are all NodeDisruptionRuns of the name of those beside them.
	Runs        []v1alpha1.LoadTestRun
	Disruptions []v1alpha1.NodeDisruptionRun
}

// Decision is what follows.
type Decision struct {
	// Create are the runs that are missing. Start are those that get the time of status.startTime, and Stop those that are ended.
	Create      []v1alpha1.LoadTestRun
	Start, Stop []*v1alpha1.LoadTestRun
	// Disrupt are the NodeDisruptionRuns that are missing, and Restore those that are paused, which restores their Nodes.
	Disrupt []v1alpha1.NodeDisruptionRun
	Restore []*v1alpha1.NodeDisruptionRun
	// Merge: all runs have ended. What they measured is to be merged, for End.
	Merge bool
	// Status is what is known, before anything of this is done.
	Status v1alpha1.LoadTestStatus
	// Next is when something is due without any event; zero for never.
	Next time.Time
	// late: runs that are not prepared are not waited for any more.
	late bool
}

// Decide says what has to be done for a test. Its phase, which is stored, says how far it is: Pending until there is a run in each
// cluster that is chosen, Preparing until the time of the beginning is set, Running until nothing is measured any more.
func Decide(world *World) Decision {
	w := newView(world)
	d := Decision{Status: *w.Test.Status.DeepCopy()}
	d.Status.ObservedGeneration = w.Test.Generation
	switch runs := w.ownRuns(); d.Status.Phase {
	case v1alpha1.LoadTestPhasePreparing:
		d.prepareRuns(w, runs)
	case v1alpha1.LoadTestPhaseRunning:
		d.startRuns(w, runs)
	case v1alpha1.LoadTestPhaseCleaningUp:
		d.awaitCleanup(w, runs)
	case v1alpha1.LoadTestPhaseCompleted, v1alpha1.LoadTestPhaseFailed:
		d.stopRuns(runs)
	case v1alpha1.LoadTestPhasePending, "":
		d.createRuns(w, runs)
	}
	d.concludeTest(w)
	return d
}

func (d *Decision) concludeTest(w *view) {
	d.Status.Message = conditions.Shorten(d.Status.Message, conditions.MaxMessage)
	conditions.ConcludeLoadTest(&d.Status.Conditions, string(d.Status.Phase), d.Status.Message, w.Test.Generation, w.Now)
}

// setPhase is the phase of the test, and what there is to say about it.
func (d *Decision) setPhase(phase v1alpha1.LoadTestPhase, format string, args ...any) {
	d.Status.Phase, d.Status.Message = phase, fmt.Sprintf(format, args...)
}

// noLaterThan sets Next to at, unless something is due sooner.
func (d *Decision) noLaterThan(at time.Time) {
	if d.Next.IsZero() || at.Before(d.Next) {
		d.Next = at
	}
}

// createRuns adds the runs that are missing, and names the clusters that are left out. The test continues when all runs are there, or
// prepareTimeout is over.
func (d *Decision) createRuns(w *view, runs []*v1alpha1.LoadTestRun) {
	chosen, err := w.chosenClusters()
	var unknown *outcome.Wait
	switch {
	case w.Test.Spec.Stopped:
		d.stopRuns(runs)
		d.setPhase(v1alpha1.LoadTestPhaseFailed, "it was stopped before it had started")
		return
	case errors.As(err, &unknown):
		d.setPhase(v1alpha1.LoadTestPhasePending, "%s", unknown.Message)
		return
	case err != nil:
		d.stopRuns(runs)
		d.setPhase(v1alpha1.LoadTestPhaseFailed, "%s: create the load test again", err)
		return
	case len(chosen) == 0:
		d.stopRuns(runs)
		d.setPhase(v1alpha1.LoadTestPhaseFailed, "no accepted Cluster is selected: correct spec.clusterSelector, the Placement or the labels of the Clusters, and create the load test again")
		return
	}
	if d.Status.PrepareTime == nil {
		d.Status.PrepareTime = new(metav1.NewTime(w.Now))
	}
	deadline := d.Status.PrepareTime.Add(w.Test.Spec.PrepareTimeout.Duration)
	waiting := d.addRuns(w, chosen, !w.Now.Before(deadline))
	// A run stays one of the test, also if its Cluster has been removed since.
	removed := len(slices.DeleteFunc(slices.Clone(runs), func(run *v1alpha1.LoadTestRun) bool { return w.Named(run.Namespace) != nil }))
	d.Status.Clusters = int32(len(chosen) + removed)
	d.Status.Failed = d.Status.Clusters - int32(len(runs)+len(d.Create)+waiting)
	switch missing := len(d.Create) + waiting; {
	case missing > 0:
		d.noLaterThan(deadline)
		d.setPhase(v1alpha1.LoadTestPhasePending, "runs are made in %s", plural.Count(missing, "cluster"))
	case len(runs) == 0:
		d.setPhase(v1alpha1.LoadTestPhaseFailed, "it could not be started in any of %d clusters: see status.failures", len(chosen))
	default:
		d.Status.Phase = v1alpha1.LoadTestPhasePreparing
		d.prepareRuns(w, runs)
	}
}

// addRuns adds the runs that are missing, and returns how many cannot be made yet. After the deadline none is made any more.
func (d *Decision) addRuns(w *view, chosen []*v1alpha1.Cluster, late bool) (waiting int) {
	earlier := d.Status.Failures
	d.Status.Failures = nil
	for _, cluster := range chosen {
		switch taken := w.ownerIn(cluster.Name); {
		case taken == fanout.Ours:
		case w.WhyNotStart(cluster.Name) != "":
			d.leaveOut(cluster.Name, w.WhyNotStart(cluster.Name))
		case taken == fanout.Others:
			d.leaveOut(cluster.Name, fmt.Sprintf("another LoadTestRun has the name %s: delete one of the two", w.Test.Name))
		case late && taken == fanout.Leftover:
			d.leaveOut(cluster.Name, "the run of a load test of the same name that was deleted is still there: its agent has not cleaned up")
		case late:
			fanout.NoteFailure(&d.Status.Failures, cluster.Name, fanout.FailureOf(earlier, cluster.Name, "left out: its run could not be made in time"))
		case taken == fanout.Leftover:
			waiting++
		default:
			run, err := w.newRun(cluster)
			if err != nil {
				d.leaveOut(cluster.Name, err.Error())
				continue
			}
			d.Create = append(d.Create, run)
		}
	}
	return waiting
}

// leaveOut names a cluster that is not loaded.
func (d *Decision) leaveOut(cluster, why string) {
	fanout.NoteFailure(&d.Status.Failures, cluster, "left out: "+why)
}

// stopRuns ends runs that are not over and have not been told. One that only cleans up continues with that.
func (d *Decision) stopRuns(runs []*v1alpha1.LoadTestRun) {
	for _, run := range runs {
		if !isMeasured(run) && !run.Spec.Stopped && !slices.Contains(d.Stop, run) {
			d.Stop = append(d.Stop, run)
		}
	}
}

// view is a World whose runs are found by the names of their clusters.
type view struct {
	*World
	runs        map[string]*v1alpha1.LoadTestRun
	disruptions map[string]*v1alpha1.NodeDisruptionRun
}

func newView(w *World) *view {
	v := &view{w, map[string]*v1alpha1.LoadTestRun{}, map[string]*v1alpha1.NodeDisruptionRun{}}
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
		if cluster := w.Named(run.Namespace); cluster != nil && !slices.Contains(chosen, cluster) {
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
