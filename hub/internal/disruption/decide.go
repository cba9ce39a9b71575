// Package disruption makes the NodeDisruptionRuns of NodeDisruptions, one in each cluster that is chosen, and sums up what the
// clusters' agents say of them.
package disruption

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

const (
	// lateStart is how late runs may be made for a time of the schedule. A hub that was away longer leaves it out.
	lateStart = time.Minute
	// mostFailures, mostPreviews and mostMessage bound the status.
	mostFailures, mostPreviews, mostMessage = 20, 20, 512
	// previewSuffix is the end of the name of a run that shows what would be hit and never begins.
	previewSuffix = "preview"
)

// World is what a decision rests on. Nothing in it is changed.
type World struct {
	Now        time.Time
	Disruption *v1alpha1.NodeDisruption
	// Clusters are all clusters of the hub that can be decoded.
	Clusters []v1alpha1.Cluster
	// Runs are those of the disruption, also such as cannot be decoded.
	Runs []v1alpha1.NodeDisruptionRun
}

// Decision is what follows.
type Decision struct {
	// Create are the runs that are missing, Pause and Resume those whose spec.paused has to be changed, and Delete those of
	// earlier times.
	Create                []v1alpha1.NodeDisruptionRun
	Pause, Resume, Delete []v1alpha1.NodeDisruptionRun
	// Status is what is known, before anything of this is done.
	Status v1alpha1.NodeDisruptionStatus
	// Next is when something is due without any event; zero for never.
	Next time.Time
}

// Decide says which runs there have to be, and sums up those that there are. Clusters are chosen when runs begin; one that is
// frozen then is left out and named. While the clusters of a time are being given their runs, status.lastScheduleTime is that
// of the time before.
func Decide(w *World) Decision {
	d := Decision{Status: *w.Disruption.Status.DeepCopy()}
	d.Status.ObservedGeneration = w.Disruption.Generation
	d.Status.NextScheduleTime, d.Status.Preview = nil, nil
	chosen, err := metav1.LabelSelectorAsSelector(&w.Disruption.Spec.ClusterSelector)
	if err != nil {
		d.fail(w, fmt.Sprintf("spec.clusterSelector: %v: create the disruption anew with a correct one", err))
		return d
	}
	due, next, err := w.due()
	if err != nil {
		d.fail(w, fmt.Sprintf("spec.schedule: %v: create the disruption anew with the five fields of crontab, such as 0 3 * * *", err))
		return d
	}
	previews, current, earlier := w.sorted(due)
	d.preview(w, chosen, previews)
	if due != nil && !w.Disruption.Spec.DryRun && !w.Disruption.Spec.Paused {
		d.begin(w, chosen, *due, current)
		for _, run := range earlier {
			if w.frozen(run.Namespace) == "" { // Else it goes when the next ones begin.
				d.Delete = append(d.Delete, run)
			}
		}
	}
	if due == nil {
		d.giveUp(w, chosen, current)
	}
	for _, run := range slices.Concat(current, earlier) {
		switch over := run.Status.Phase == v1alpha1.NodeDisruptionCompleted || run.Status.Phase == v1alpha1.NodeDisruptionFailed; {
		case over || run.DecodeError != "" || run.Spec.Paused == w.Disruption.Spec.Paused:
		case w.Disruption.Spec.Paused:
			d.Pause = append(d.Pause, run)
		default:
			d.Resume = append(d.Resume, run)
		}
	}
	d.summarize(w, current, next)
	return d
}

// due is the time for which runs are due, nil for none, and when the next ones are.
func (w *World) due() (*time.Time, time.Time, error) {
	last := w.Disruption.Status.LastScheduleTime
	if w.Disruption.Spec.Schedule == "" {
		if last != nil {
			return nil, time.Time{}, nil
		}
		at := w.Disruption.CreationTimestamp.Time
		return &at, time.Time{}, nil
	}
	if strings.ContainsAny(w.Disruption.Spec.Schedule, "=@") {
		return nil, time.Time{}, fmt.Errorf("%q has no five fields", w.Disruption.Spec.Schedule)
	}
	schedule, err := scheduleFields.Parse(w.Disruption.Spec.Schedule)
	if err != nil {
		return nil, time.Time{}, err
	}
	after := w.Now.Add(-lateStart)
	for _, earliest := range []time.Time{w.Disruption.CreationTimestamp.Time, timeOf(last)} {
		if earliest.After(after) {
			after = earliest
		}
	}
	at := schedule.Next(after.UTC())
	if at.IsZero() {
		return nil, time.Time{}, fmt.Errorf("%q never comes", w.Disruption.Spec.Schedule)
	}
	if at.After(w.Now) {
		return nil, at, nil
	}
	if w.isGoingOn(at) {
		return nil, schedule.Next(w.Now.UTC()), nil
	}
	return &at, schedule.Next(w.Now.UTC()), nil
}

// scheduleFields are those of crontab.
var scheduleFields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// isGoingOn tells whether runs of an earlier time than at are not over. One in a frozen cluster, or one that is gone, is not waited
// for: it would keep all others from what is due.
func (w *World) isGoingOn(at time.Time) bool {
	return slices.ContainsFunc(w.Runs, func(run v1alpha1.NodeDisruptionRun) bool {
		return !isPreview(&run) && run.Name != w.name(at) && run.DecodeError == "" && w.frozen(run.Namespace) == "" &&
			run.Status.Phase != v1alpha1.NodeDisruptionCompleted && run.Status.Phase != v1alpha1.NodeDisruptionFailed
	})
}

// name is that of the runs for a time. It follows from the time, so that no run is made twice.
func (w *World) name(at time.Time) string {
	if w.Disruption.Spec.Schedule == "" {
		return w.Disruption.Name
	}
	return fmt.Sprintf("%s-%d", w.Disruption.Name, at.Unix()/60)
}

func isPreview(run *v1alpha1.NodeDisruptionRun) bool {
	return run.Labels[v1alpha1.NodeDisruptionPreviewLabel] != ""
}

// sorted are the runs that are previews, those of the time that is due or else the latest, and those of earlier times.
func (w *World) sorted(due *time.Time) (previews, current, earlier []v1alpha1.NodeDisruptionRun) {
	name := w.name(w.latest())
	if due != nil {
		name = w.name(*due)
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

// latest is the latest time that has runs. It is later than status.lastScheduleTime if not all clusters could be given theirs.
func (w *World) latest() time.Time {
	latest := timeOf(w.Disruption.Status.LastScheduleTime)
	for i := range w.Runs {
		minutes, err := strconv.ParseInt(strings.TrimPrefix(w.Runs[i].Name, w.Disruption.Name+"-"), 10, 64)
		if at := time.Unix(60*minutes, 0).UTC(); err == nil && w.Disruption.Spec.Schedule != "" && at.After(latest) {
			latest = at
		}
	}
	return latest
}

// giveUp takes the latest time for done that has runs, although clusters are left without: it is too late for these.
func (d *Decision) giveUp(w *World, chosen labels.Selector, current []v1alpha1.NodeDisruptionRun) {
	latest := metav1.NewTime(w.latest())
	if !latest.After(timeOf(d.Status.LastScheduleTime)) {
		return
	}
	d.Status.LastScheduleTime = &latest
	named := d.Status.Failures
	d.Status.Failures = nil
	for _, cluster := range w.byName() {
		if !chosen.Matches(labels.Set(cluster.Labels)) || slices.ContainsFunc(current, func(run v1alpha1.NodeDisruptionRun) bool { return run.Namespace == cluster.Name }) {
			continue
		}
		failure := v1alpha1.DisruptionFailure{Cluster: cluster.Name, Message: fmt.Sprintf("left out, because its run could not be made within %s", lateStart)}
		if i := slices.IndexFunc(named, func(f v1alpha1.DisruptionFailure) bool { return f.Cluster == cluster.Name }); i >= 0 {
			failure = named[i]
		}
		d.Status.Failures = append(d.Status.Failures, failure)
	}
}

// begin adds the runs that are due and missing, and notes the clusters that are left out.
func (d *Decision) begin(w *World, chosen labels.Selector, at time.Time, current []v1alpha1.NodeDisruptionRun) {
	d.Status.Failures = nil
	scheduled := metav1.NewTime(at)
	d.Status.LastScheduleTime = &scheduled
	for _, cluster := range w.byName() {
		switch has := slices.ContainsFunc(current, func(run v1alpha1.NodeDisruptionRun) bool { return run.Namespace == cluster.Name }); {
		case has || !chosen.Matches(labels.Set(cluster.Labels)):
		case frozen(cluster) != "":
			d.Status.Failures = append(d.Status.Failures, v1alpha1.DisruptionFailure{
				Cluster: cluster.Name, Message: conditions.Shorten("left out, because it is frozen: "+frozen(cluster), mostMessage),
			})
		default:
			d.Create = append(d.Create, w.run(cluster.Name, w.name(at), false))
		}
	}
}

// byName are the clusters in the order of their names.
func (w *World) byName() []*v1alpha1.Cluster {
	var sorted []*v1alpha1.Cluster
	for i := range w.Clusters {
		sorted = append(sorted, &w.Clusters[i])
	}
	slices.SortFunc(sorted, func(a, b *v1alpha1.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	return sorted
}

// frozen says why a cluster is not waited for; empty if it is.
func (w *World) frozen(name string) string {
	for i := range w.Clusters {
		if w.Clusters[i].Name == name {
			return frozen(&w.Clusters[i])
		}
	}
	return "its Cluster is gone"
}

// frozen says why nothing may begin in a cluster; empty if it may.
func frozen(cluster *v1alpha1.Cluster) string {
	return freeze.OfCluster(cluster.Name, cluster.Name, cluster).Message
}

// run is a run of the disruption.
func (w *World) run(cluster, name string, preview bool) v1alpha1.NodeDisruptionRun {
	run := v1alpha1.NodeDisruptionRun{}
	run.Namespace, run.Name = cluster, name
	run.Labels = map[string]string{v1alpha1.NodeDisruptionNameLabel: w.Disruption.Name}
	run.Spec.Disruption, run.Spec.Paused = *w.Disruption.Spec.Disruption.DeepCopy(), preview
	if preview {
		run.Labels[v1alpha1.NodeDisruptionPreviewLabel] = "true"
	}
	// Its deletion restores the Nodes: the API server's garbage collector deletes the runs, and the agents take the plans off.
	run.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeDisruption", Name: w.Disruption.Name, UID: w.Disruption.UID, Controller: new(true),
	}}
	return run
}

// preview adds the runs that show what would be hit while that is asked for, and takes them away afterwards.
func (d *Decision) preview(w *World, chosen labels.Selector, previews []v1alpha1.NodeDisruptionRun) {
	if !w.Disruption.Spec.DryRun {
		d.Delete = append(d.Delete, previews...)
		return
	}
	for _, cluster := range w.byName() {
		if !chosen.Matches(labels.Set(cluster.Labels)) {
			continue
		}
		at := slices.IndexFunc(previews, func(run v1alpha1.NodeDisruptionRun) bool { return run.Namespace == cluster.Name })
		why := frozen(cluster)
		if at < 0 && why == "" {
			d.Create = append(d.Create, w.run(cluster.Name, w.Disruption.Name+"-"+previewSuffix, true))
		}
		if len(d.Status.Preview) == mostPreviews {
			continue
		}
		switch {
		case why != "":
			d.notHit(cluster.Name, "would be left out, because it is frozen: "+why)
		case at < 0:
		case previews[at].Status.Phase == v1alpha1.NodeDisruptionFailed:
			d.notHit(cluster.Name, previews[at].Status.Message)
		case previews[at].Status.Preview != nil:
			d.Status.Preview = append(d.Status.Preview, v1alpha1.DisruptionPreview{Cluster: cluster.Name, NodePreview: *previews[at].Status.Preview})
		}
	}
}

// notHit adds to the preview why a cluster would not be hit.
func (d *Decision) notHit(cluster, why string) {
	preview := v1alpha1.NodePreview{Warnings: []string{conditions.Shorten(why, mostMessage)}}
	d.Status.Preview = append(d.Status.Preview, v1alpha1.DisruptionPreview{Cluster: cluster, NodePreview: preview})
}

// fail says that the disruption cannot be carried out until it is created anew.
func (d *Decision) fail(w *World, message string) {
	d.Status.Phase, d.Status.Message = v1alpha1.NodeDisruptionFailed, conditions.Shorten(message, conditions.MaxMessage)
	conditions.ConcludeDisruption(&d.Status.Conditions, d.Status.Phase, d.Status.Message, w.Disruption.Generation, w.Now)
}

// summarize sums up the current runs.
func (d *Decision) summarize(w *World, current []v1alpha1.NodeDisruptionRun, next time.Time) {
	s := &d.Status
	s.Clusters, s.Completed, s.Selected, s.Injected, s.Observed, s.Recovered = int32(len(current)), 0, 0, 0, 0, 0
	s.Expectations, s.Verdict = nil, ""
	left := slices.DeleteFunc(s.Failures, func(f v1alpha1.DisruptionFailure) bool {
		return slices.ContainsFunc(current, func(run v1alpha1.NodeDisruptionRun) bool { return run.Namespace == f.Cluster })
	})
	s.Failed = int32(len(left))
	passed, unknown := 0, 0
	phases := map[v1alpha1.NodeDisruptionRunPhase]int{}
	for i := range current {
		run := &current[i]
		phases[cmp.Or(run.Status.Phase, v1alpha1.NodeDisruptionPending)]++
		add(s, run)
		if failure := failureOf(run); failure != "" {
			s.Failed++
			left = append(left, v1alpha1.DisruptionFailure{Cluster: run.Namespace, Message: conditions.Shorten(failure, mostMessage)})
		} else if run.Status.Phase == v1alpha1.NodeDisruptionCompleted {
			s.Completed++
		}
		switch run.Status.Verdict {
		case v1alpha1.DisruptionPassed:
			passed++
		case v1alpha1.DisruptionUnknown:
			unknown++
		case v1alpha1.DisruptionMissed: // A failure, which is counted above.
		}
	}
	if len(w.Disruption.Spec.Expectations) > 0 {
		s.Verdict = verdict(int(s.Failed), passed, unknown, len(current))
	}
	slices.SortFunc(left, func(a, b v1alpha1.DisruptionFailure) int { return cmp.Compare(a.Cluster, b.Cluster) })
	s.Failures = left[:min(len(left), mostFailures)]
	d.progress(w, phases)
	if !next.IsZero() && !w.Disruption.Spec.Paused && !w.Disruption.Spec.DryRun {
		at := metav1.NewTime(next)
		s.NextScheduleTime, d.Next = &at, next
	}
	conditions.ConcludeDisruption(&s.Conditions, s.Phase, s.Message, w.Disruption.Generation, w.Now)
}

// verdict is that of all runs. A run is counted as unknown when it is over.
func verdict(failed, passed, unknown, all int) v1alpha1.DisruptionVerdict {
	switch {
	case failed > 0:
		return v1alpha1.DisruptionMissed
	case unknown > 0 && passed+unknown == all:
		return v1alpha1.DisruptionUnknown
	case passed > 0 && passed == all:
		return v1alpha1.DisruptionPassed
	default:
		return ""
	}
}

// add adds what a run counts.
func add(s *v1alpha1.NodeDisruptionStatus, run *v1alpha1.NodeDisruptionRun) {
	s.Selected, s.Injected = s.Selected+run.Status.Selected, s.Injected+run.Status.Injected
	s.Observed, s.Recovered = s.Observed+run.Status.Observed, s.Recovered+run.Status.Recovered
	for i, result := range run.Status.Expectations {
		if i == len(s.Expectations) {
			s.Expectations = append(s.Expectations, v1alpha1.ExpectationResult{Type: result.Type})
		}
		sum := &s.Expectations[i]
		sum.Met, sum.Missed, sum.Pending, sum.Unknown = sum.Met+result.Met, sum.Missed+result.Missed, sum.Pending+result.Pending, sum.Unknown+result.Unknown
	}
}

// failureOf says why a run has failed; empty if it has not.
func failureOf(run *v1alpha1.NodeDisruptionRun) string {
	switch {
	case run.DecodeError != "":
		return "the run cannot be decoded: " + run.DecodeError
	case run.Status.Phase == v1alpha1.NodeDisruptionFailed:
		return run.Status.Message
	case run.Status.Verdict == v1alpha1.DisruptionMissed:
		return missed(run)
	default:
		return ""
	}
}

// missed says which expectations a run has missed.
func missed(run *v1alpha1.NodeDisruptionRun) string {
	var texts []string
	for i, result := range run.Status.Expectations {
		if result.Missed > 0 {
			texts = append(texts, fmt.Sprintf("expectations[%d] %s was missed on %d of %d Nodes", i, result.Type, result.Missed, result.Met+result.Missed+result.Pending+result.Unknown))
		}
	}
	if len(texts) == 0 {
		return "no Node had what is expected"
	}
	return strings.Join(texts, "; ")
}

// progress is the phase of the disruption, and what there is to say about it.
func (d *Decision) progress(w *World, phases map[v1alpha1.NodeDisruptionRunPhase]int) {
	s, spec := &d.Status, &w.Disruption.Spec
	over := phases[v1alpha1.NodeDisruptionCompleted] + phases[v1alpha1.NodeDisruptionFailed]
	switch {
	case spec.Paused && over+phases[v1alpha1.NodeDisruptionPaused] < int(s.Clusters):
		s.Phase, s.Message = v1alpha1.NodeDisruptionPaused, fmt.Sprintf("is to be paused: the Nodes of %d of %d runs are restored", over+phases[v1alpha1.NodeDisruptionPaused], s.Clusters)
	case spec.Paused:
		s.Phase, s.Message = v1alpha1.NodeDisruptionPaused, "paused: the Nodes are restored. Set spec.paused to false to go on"
	case spec.DryRun && s.Clusters == 0:
		s.Phase, s.Message = v1alpha1.NodeDisruptionPending, "a dry run: status.preview says what would be hit. Set spec.dryRun to false to begin"
	case s.LastScheduleTime == nil:
		s.Phase, s.Message = v1alpha1.NodeDisruptionPending, "no runs were due yet"
	case len(d.Create) > 0:
		s.Phase, s.Message = v1alpha1.NodeDisruptionPending, fmt.Sprintf("runs are made in %d clusters", len(d.Create))
	case s.Clusters == 0:
		s.Phase, s.Message = v1alpha1.NodeDisruptionFailed, "spec.clusterSelector: no cluster is chosen that is not frozen: correct it, or thaw them, and create the disruption anew"
	case over < int(s.Clusters):
		s.Phase = v1alpha1.NodeDisruptionPending
		if phases[v1alpha1.NodeDisruptionRunning] > 0 || over > 0 {
			s.Phase = v1alpha1.NodeDisruptionRunning
		}
		s.Message = fmt.Sprintf("%d of %d runs are over", over, s.Clusters)
	default:
		s.Phase = v1alpha1.NodeDisruptionCompleted
		s.Message = fmt.Sprintf("%d of %d Nodes were disrupted, %d seen so, %d recovered, in %d clusters", s.Injected, s.Selected, s.Observed, s.Recovered, s.Clusters)
		if s.Verdict == v1alpha1.DisruptionUnknown {
			s.Message += "; not all that was expected could be seen, because agents were frozen or did not run"
		}
		if s.Failed > 0 && s.Verdict == "" {
			s.Phase = v1alpha1.NodeDisruptionFailed
			s.Message = fmt.Sprintf("%d clusters were not disrupted as they should be: see status.failures. ", s.Failed) + s.Message
		}
	}
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
