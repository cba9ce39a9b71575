// Package disruption makes the NodeDisruptionRuns of NodeDisruptions, one in each cluster that is chosen, and sums up what the
// clusters' agents say of them.
package disruption

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fanout"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
)

const (
	// lateStart is how late runs may be made for a time of the schedule. A hub that was away longer leaves it out.
	lateStart = time.Minute
	// mostPreviews bounds the status.
	mostPreviews = 20
	// previewSuffix is the end of the name of a run that shows what would be hit and never starts.
	previewSuffix = "preview"
)

// World is what a decision rests on. Nothing in it is changed.
type World struct {
	Now        time.Time
	Disruption *v1alpha1.NodeDisruption
	fanout.Selection
	// Runs are those of the disruption, also such as cannot be decoded.
	Runs []v1alpha1.NodeDisruptionRun
}

// Decision is what follows.
type Decision struct {
	// Create are the runs that are missing, Pause and Resume those whose spec.paused has to be changed, and Delete those of
	// earlier times.
	Create        []v1alpha1.NodeDisruptionRun
	Pause, Resume []*v1alpha1.NodeDisruptionRun
	Delete        []v1alpha1.NodeDisruptionRun
	// Status is what is known, before anything of this is done.
	Status v1alpha1.NodeDisruptionStatus
	// Next is when something is due without any event; zero for never.
	Next time.Time
}

// Decide says which runs there have to be, and sums up those that there are. Clusters are chosen when runs start; one that is
// frozen then is left out and named. While the clusters of a time are being given their runs, status.lastScheduleTime is that
// of the time before.
func Decide(w *World) Decision {
	d := Decision{Status: *w.Disruption.Status.DeepCopy()}
	d.Status.ObservedGeneration = w.Disruption.Generation
	d.Status.NextScheduleTime, d.Status.Preview = nil, nil
	chosen, err := w.Chosen(w.Disruption.Spec.ClusterSelector, w.Disruption.Spec.PlacementRef)
	var unknown *outcome.Wait
	if err != nil && !errors.As(err, &unknown) {
		d.failDisruption(w, err.Error()+": create the disruption again")
		return d
	}
	due, next, err := w.dueTimes()
	if err != nil {
		d.failDisruption(w, fmt.Sprintf("spec.schedule: %v: create the disruption again with the five fields of crontab, such as 0 3 * * *", err))
		return d
	}
	previews, current, earlier := w.sortRuns(due)
	d.previewRuns(w, chosen, previews, cmp.Or(next, w.Disruption.CreationTimestamp.Time))
	switch {
	case unknown != nil: // Nothing starts, and nothing is given up, until the clusters are known.
	case due == nil:
		d.giveUp(w, chosen, current)
	case !w.Disruption.Spec.DryRun && !w.Disruption.Spec.Paused:
		d.createRuns(w, chosen, *due, current)
		for _, run := range earlier {
			if w.WhyNotStart(run.Namespace) == "" { // Else it goes when the next ones start.
				d.Delete = append(d.Delete, run)
			}
		}
	}
	d.pauseRuns(w, slices.Concat(current, earlier))
	d.summarizeRuns(w, current, next)
	if unknown != nil && (due != nil || w.Disruption.Spec.DryRun) && !w.Disruption.Spec.Paused {
		d.setPhase(w, v1alpha1.NodeDisruptionPending, unknown.Message)
	}
	return d
}

// pauseRuns pauses or resumes the runs that are not over, as the spec says.
func (d *Decision) pauseRuns(w *World, runs []v1alpha1.NodeDisruptionRun) {
	for i := range runs {
		run := &runs[i]
		switch over := run.Status.Phase == v1alpha1.NodeDisruptionCompleted || run.Status.Phase == v1alpha1.NodeDisruptionFailed; {
		case over || run.DecodeError != "" || run.Spec.Paused == w.Disruption.Spec.Paused:
		case w.Disruption.Spec.Paused:
			d.Pause = append(d.Pause, run)
		default:
			d.Resume = append(d.Resume, run)
		}
	}
}

// parentOf is what the runs of a disruption belong to. Its deletion restores the Nodes: the agents take the plans off.
func parentOf(disruption *v1alpha1.NodeDisruption) fanout.Parent {
	return fanout.Parent{Object: disruption, Kind: "NodeDisruption", Label: v1alpha1.NodeDisruptionNameLabel}
}

func isPreview(run *v1alpha1.NodeDisruptionRun) bool {
	return run.Labels[v1alpha1.NodeDisruptionPreviewLabel] != ""
}

// sortRuns are the runs that are previews, those of the time that is due or else the latest, and those of earlier times.
func (w *World) sortRuns(due *time.Time) (previews, current, earlier []v1alpha1.NodeDisruptionRun) {
	name := w.runName(w.latestTime())
	if due != nil {
		name = w.runName(*due)
	}
	for _, run := range w.Runs {
		switch {
		case isPreview(&run):
			previews = append(previews, run)
		case run.Name == name:
			current = append(current, run)
		default:
			earlier = append(earlier, run)
		}
	}
	return previews, current, earlier
}

// createRuns adds the runs that are due and missing, and notes the clusters that are left out.
func (d *Decision) createRuns(w *World, chosen []*v1alpha1.Cluster, at time.Time, current []v1alpha1.NodeDisruptionRun) {
	d.Status.Failures = nil
	scheduled := metav1.NewTime(at)
	d.Status.LastScheduleTime = &scheduled
	for _, cluster := range chosen {
		if runIn(current, cluster.Name) != nil {
			continue
		}
		if why := freeze.OfStart(cluster.Name, cluster).Message; why != "" {
			d.leaveOut(cluster.Name, why)
			continue
		}
		d.Create = append(d.Create, w.newRun(cluster.Name, at, false))
	}
}

// leaveOut names a cluster that gets no run. The list is bounded when it is summed up.
func (d *Decision) leaveOut(cluster, why string) {
	d.Status.Failures = append(d.Status.Failures, v1alpha1.ClusterFailure{Cluster: cluster, Message: conditions.Shorten("left out: "+why, fanout.MostMessage)})
}

// runIn is the one of runs in a cluster; nil if it has none.
func runIn(runs []v1alpha1.NodeDisruptionRun, cluster string) *v1alpha1.NodeDisruptionRun {
	for i := range runs {
		if runs[i].Namespace == cluster {
			return &runs[i]
		}
	}
	return nil
}

// newRun is a run of the disruption for a time.
func (w *World) newRun(cluster string, at time.Time, preview bool) v1alpha1.NodeDisruptionRun {
	run := v1alpha1.NodeDisruptionRun{ObjectMeta: parentOf(w.Disruption).NewMeta(cluster, w.runName(at))}
	run.Spec.Disruption, run.Spec.Paused = *w.Disruption.Spec.Disruption.DeepCopy(), preview
	run.Spec.Seed = w.runSeed(at)
	if preview {
		run.Name = w.Disruption.Name + "-" + previewSuffix
		run.Labels[v1alpha1.NodeDisruptionPreviewLabel] = "true"
	}
	return run
}

// previewRuns adds the runs that show what would be hit while that is asked for, and takes them away afterwards. Next is the time of the
// next runs, of which a schedule decides the seed.
func (d *Decision) previewRuns(w *World, chosen []*v1alpha1.Cluster, previews []v1alpha1.NodeDisruptionRun, next time.Time) {
	if !w.Disruption.Spec.DryRun {
		d.Delete = append(d.Delete, previews...)
		return
	}
	for _, cluster := range chosen {
		run, why := runIn(previews, cluster.Name), freeze.OfStart(cluster.Name, cluster).Message
		if run == nil && why == "" {
			d.Create = append(d.Create, w.newRun(cluster.Name, next, true))
		}
		if len(d.Status.Preview) == mostPreviews {
			continue
		}
		switch {
		case why != "":
			d.notHit(cluster.Name, "would be left out: "+why)
		case run == nil:
		case run.Status.Phase == v1alpha1.NodeDisruptionFailed:
			d.notHit(cluster.Name, run.Status.Message)
		case run.Status.Preview != nil:
			d.Status.Preview = append(d.Status.Preview, v1alpha1.DisruptionPreview{Cluster: cluster.Name, NodePreview: *run.Status.Preview})
		}
	}
}

// notHit adds to the preview why a cluster would not be hit.
func (d *Decision) notHit(cluster, why string) {
	preview := v1alpha1.NodePreview{Warnings: []string{conditions.Shorten(why, fanout.MostMessage)}}
	d.Status.Preview = append(d.Status.Preview, v1alpha1.DisruptionPreview{Cluster: cluster, NodePreview: preview})
}

// failDisruption says that the disruption cannot be carried out until it is created again.
func (d *Decision) failDisruption(w *World, message string) {
	d.setPhase(w, v1alpha1.NodeDisruptionFailed, message)
}

// setPhase is the phase of the disruption, what there is to say about it, and the conditions that follow.
func (d *Decision) setPhase(w *World, phase v1alpha1.NodeDisruptionRunPhase, message string) {
	d.Status.Phase, d.Status.Message = phase, conditions.Shorten(message, conditions.MaxMessage)
	conditions.ConcludeDisruption(&d.Status.Conditions, d.Status.Phase, d.Status.Message, w.Disruption.Generation, w.Now)
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
