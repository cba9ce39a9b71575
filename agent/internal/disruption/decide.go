// Package disruption carries the NodeDisruptionRuns of a cluster out: it chooses their Nodes, gives the hollow nodes their plans,
// and reports what came of it. The hollow nodes do the rest by themselves, also while this agent, the hub or the cluster's API
// server is away.
package disruption

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const (
	// lead is how long before its beginning a plan is written, so that it is in the pod's file by then: a Kill whose window
	// started before the node knew of it counts as done only if the process is older.
	lead = 10 * time.Second
	// recovery is how long after the end of a run its Nodes are followed, for those that are not healthy again yet.
	recovery = 5 * time.Minute
	// nextAnswer is how soon after the end of a run the cluster's API server has answered again if nothing is wrong with it.
	nextAnswer = 20 * time.Second
	// mostNodes is how many Nodes a run may hit: its status names each.
	mostNodes = 500
	// mostNames is how many names a message has.
	mostNames = 10
)

// World is what a decision rests on. Nothing in it is changed.
type World struct {
	Now time.Time
	// Frozen is that the agent acts on nothing.
	Frozen bool
	// Downtime is how much of the time since then does not count, because the agent was frozen or did not run. Nil for none.
	Downtime func(since time.Time) time.Duration
	// Answered is when the cluster's API server last gave a good answer: what was to be seen later than that is not known.
	Answered time.Time
	// Runs, Machines, Nodes and Pods are those of the cluster. Nodes and Pods are found by the Machine's name.
	Runs     []v1alpha1.NodeDisruptionRun
	Machines []v1alpha1.Machine
	Nodes    map[string]*corev1.Node
	Pods     map[string]Pod
	// Unreadable are the UIDs of runs that are there and cannot be decoded: what pods have of them stays.
	Unreadable map[string]bool
	// Arriving are the Machines whose pods are about to be created: their UIDs by their names.
	Arriving map[string]types.UID
	// Evictable is how many pods could be evicted from a Node. A Node of which this is not known is not in it.
	Evictable map[string]int32
}

// Pod is a hollow node's pod.
type Pod struct {
	// Disruptable is that it follows the plan in its annotation, Plan what the annotation says.
	Disruptable bool
	Plan        string
}

// Decision is what follows.
type Decision struct {
	// Statuses are those of the runs, in their order.
	Statuses []v1alpha1.NodeDisruptionRunStatus
	// Plans are what the annotations of the pods should say, by the Machine's name; empty for no annotation. A pod that is not
	// there stays as it is.
	Plans map[string]string
}

// Decide says how far each run is, and what each hollow node has to do for them. The Nodes and the times of a run are decided
// once, and count only when the run's status has them: a plan never starts that is not known on the hub.
func Decide(w World) Decision {
	d := Decision{Plans: map[string]string{}}
	for i := range w.Runs {
		d.Statuses = append(d.Statuses, w.statusOf(&w.Runs[i]))
	}
	wanted := runsByNode(w.Runs, w.Now)
	for name, pod := range w.Pods {
		if !pod.Disruptable {
			continue
		}
		if text := encodePlan(w.keptEntries(pod), wanted[name]); text != pod.Plan {
			d.Plans[name] = text
		}
	}
	return d
}

// runsByNode are the runs that each Node has to carry out, by its name, in the order of their beginnings.
func runsByNode(runs []v1alpha1.NodeDisruptionRun, now time.Time) map[string][]*v1alpha1.NodeDisruptionRun {
	var active []*v1alpha1.NodeDisruptionRun
	for i := range runs {
		if carriedOut(&runs[i], now) {
			active = append(active, &runs[i])
		}
	}
	slices.SortFunc(active, func(a, b *v1alpha1.NodeDisruptionRun) int {
		return cmp.Or(a.Status.StartTime.Compare(b.Status.StartTime.Time), cmp.Compare(a.UID, b.UID))
	})
	wanted := map[string][]*v1alpha1.NodeDisruptionRun{}
	for _, run := range active {
		for _, node := range run.Status.Nodes {
			wanted[node.Name] = append(wanted[node.Name], run)
		}
	}
	return wanted
}

// encodePlan is the plan of a node. A run that is not valid, or for which no room is left, is left out and stops no other one; those
// that started first come first.
func encodePlan(entries []disrupt.Entry, runs []*v1alpha1.NodeDisruptionRun) string {
	text, err := disrupt.Encode(disrupt.Plan{Entries: entries})
	if err != nil {
		entries, text = nil, ""
	}
	for _, run := range runs {
		more := slices.Concat(entries, entriesOf(run))
		if with, err := disrupt.Encode(disrupt.Plan{Entries: more}); err == nil {
			entries, text = more, with
		}
	}
	return text
}

// keptEntries are the entries of a pod's plan whose runs cannot be decoded: they are not known to be over, and end by themselves.
func (w *World) keptEntries(pod Pod) []disrupt.Entry {
	if len(w.Unreadable) == 0 {
		return nil
	}
	plan, err := disrupt.Decode([]byte(pod.Plan))
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(plan.Entries, func(e disrupt.Entry) bool { return !w.Unreadable[e.UID] || !w.Now.Before(e.End.Time) })
}

// carriedOut reports whether nodes have a run in their plans.
func carriedOut(run *v1alpha1.NodeDisruptionRun, now time.Time) bool {
	return run.DeletionTimestamp == nil && !run.Spec.Paused && run.Status.StartTime != nil && run.Status.EndTime != nil &&
		now.Before(run.Status.EndTime.Time) && run.Status.Phase != v1alpha1.NodeDisruptionFailed
}

// entriesOf are the faults of a run that has started as a plan has them.
func entriesOf(run *v1alpha1.NodeDisruptionRun) []disrupt.Entry {
	return entriesFrom(run, *run.Status.StartTime, *run.Status.EndTime)
}

func entriesFrom(run *v1alpha1.NodeDisruptionRun, start, end metav1.Time) []disrupt.Entry {
	var entries []disrupt.Entry
	timing := run.Spec.Timing
	for i, fault := range run.Spec.Faults {
		entries = append(entries, disrupt.Entry{
			Run: run.Name, UID: string(run.UID), Index: int32(i), Fault: fault, Seed: run.Spec.SeedValue(),
			Timing: disrupt.Timing{
				Start: start, End: end,
				HealthyFor: timing.HealthyFor, UnhealthyFor: timing.UnhealthyFor, Jitter: timing.Jitter, Repeat: timing.Repeat,
			},
		})
	}
	return entries
}

// isOver reports whether nothing of a run changes any more.
func isOver(phase v1alpha1.NodeDisruptionRunPhase) bool {
	return phase == v1alpha1.NodeDisruptionCompleted || phase == v1alpha1.NodeDisruptionFailed
}

// isBusy reports whether anything is to be done, now or at some time, unless a run changes.
func (w *World) isBusy() bool {
	return len(w.Unreadable) > 0 || slices.ContainsFunc(w.Runs, func(r v1alpha1.NodeDisruptionRun) bool { return !isOver(r.Status.Phase) }) ||
		slices.ContainsFunc(slices.Collect(maps.Values(w.Pods)), func(p Pod) bool { return p.Disruptable && p.Plan != "" })
}

// statusOf is how far a run is.
func (w *World) statusOf(run *v1alpha1.NodeDisruptionRun) v1alpha1.NodeDisruptionRunStatus {
	status := *run.Status.DeepCopy()
	switch {
	case isOver(status.Phase):
		return status
	case status.StartTime == nil || status.EndTime == nil:
		status = w.startRun(run, status)
	default:
		w.addArrivals(run, &status)
		w.followRun(run, &status)
		status.Phase, status.Message = w.currentPhase(run, &status)
		status.Expectations = expectationResults(run, status.Nodes, isOver(status.Phase))
	}
	status.Verdict = verdictOf(run, &status)
	status.Message = conditions.Shorten(status.Message, conditions.MaxMessage)
	conditions.ConcludeDisruption(&status.Conditions, status.Phase, status.Message, run.Generation, w.Now)
	return status
}

// currentPhase is the phase of a run that has started, and what there is to say about it.
func (w *World) currentPhase(run *v1alpha1.NodeDisruptionRun, status *v1alpha1.NodeDisruptionRunStatus) (v1alpha1.NodeDisruptionRunPhase, string) {
	begins, ends := status.StartTime.Time, status.EndTime.Time
	switch {
	case !w.Now.Before(ends):
		return w.progressAfterEnd(status)
	case run.Spec.Paused && w.countCarriers(run) > 0:
		message := "is to be paused: " + plural.Are(w.countCarriers(run), "Node") + " not restored yet"
		if w.Frozen {
			message += ", because the agent is frozen"
		}
		if w.Now.Before(begins) {
			return v1alpha1.NodeDisruptionPending, message
		}
		return v1alpha1.NodeDisruptionRunning, message
	case run.Spec.Paused:
		return v1alpha1.NodeDisruptionPaused, "paused: the Nodes are restored. Set spec.paused to false to continue"
	case w.Now.Before(begins):
		return v1alpha1.NodeDisruptionPending, describeStart(int(status.Selected), begins) + arrivalsMessage(run, status)
	default:
		return v1alpha1.NodeDisruptionRunning, fmt.Sprintf("the faults end at %s", ends.UTC().Format(time.RFC3339)) + arrivalsMessage(run, status)
	}
}

// progressAfterEnd is the phase of a run whose faults are over, and what there is to say about it.
func (w *World) progressAfterEnd(status *v1alpha1.NodeDisruptionRunStatus) (v1alpha1.NodeDisruptionRunPhase, string) {
	begins, ends := status.StartTime.Time, status.EndTime.Time
	waited := w.Now.Sub(ends) - w.frozenSince(ends)
	switch ill := w.countUnrecovered(status); {
	case !w.Frozen && w.Answered.Before(ends) && w.Now.Sub(ends) < nextAnswer:
		return v1alpha1.NodeDisruptionRunning, "the faults are over; checking the Nodes once more"
	case w.Frozen || w.Answered.Before(ends):
		return v1alpha1.NodeDisruptionRunning, "the faults are over; the state of the Nodes is unknown until the cluster's API server answers and the agent is not frozen"
	case status.Selected == 0:
		return v1alpha1.NodeDisruptionFailed, "no Node was hit: NeverJoin hits Machines that are created while the run is in progress, and none of the target was: create Machines between its start and its end, or let it last longer"
	case status.Injected == 0:
		return v1alpha1.NodeDisruptionFailed, fmt.Sprintf("none of %d Nodes was disrupted%s", status.Selected, whyNone(status.Nodes)) + w.describeBlindTime(begins, ends)
	case ill == 0 || waited >= recovery:
		return v1alpha1.NodeDisruptionCompleted, fmt.Sprintf("%d of %d Nodes were disrupted, %d observed, %d recovered",
			status.Injected, status.Selected, status.Observed, status.Recovered) + w.describeBlindTime(begins, ends)
	default:
		return v1alpha1.NodeDisruptionRunning, "the faults are over; " + plural.Have(ill, "Node") + " not recovered yet"
	}
}

// countUnrecovered is how many Nodes are not healthy again of which something was seen. A Machine that is gone has none that could recover.
func (w *World) countUnrecovered(status *v1alpha1.NodeDisruptionRunStatus) int {
	ill := 0
	for i := range status.Nodes {
		node := &status.Nodes[i]
		there := slices.ContainsFunc(w.Machines, func(m v1alpha1.Machine) bool { return m.Name == node.Name && m.DeletionTimestamp == nil })
		if there && node.ObservedAt != nil && node.RecoveredAt == nil {
			ill++
		}
	}
	return ill
}

// whyNone is what is said of the Nodes of a run that has hit none.
func whyNone(nodes []v1alpha1.DisruptedNode) string {
	for i := range nodes {
		if nodes[i].Message != "" {
			return fmt.Sprintf(": %s: %s", nodes[i].Name, nodes[i].Message)
		}
	}
	return ""
}

// countCarriers is how many of the Nodes have the run in their plans.
func (w *World) countCarriers(run *v1alpha1.NodeDisruptionRun) int {
	count := 0
	for i := range run.Status.Nodes {
		if w.carriesRun(run, run.Status.Nodes[i].Name) {
			count++
		}
	}
	return count
}

// frozenSince is how much of the time since then does not count.
func (w *World) frozenSince(then time.Time) time.Duration {
	if w.Downtime == nil {
		return 0
	}
	return w.Downtime(then)
}

// describeBlindTime says for how long the agent saw nothing while the faults were there; empty if it saw everything.
func (w *World) describeBlindTime(begins, ends time.Time) string {
	frozen := (w.frozenSince(begins) - w.frozenSince(ends)).Round(time.Second)
	if frozen <= 0 {
		return ""
	}
	return fmt.Sprintf("; for %s of that time the agent was frozen or not running, and observed nothing", frozen)
}
