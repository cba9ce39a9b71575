package disruption

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	nodes "github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// patience is how long a Machine waits for its disruptions to be decided, if that fails. One run that cannot be written must
// not keep all Machines from being made.
const patience = 30 * time.Second

// errNoRound is that no round has looked at a Machine, because the agent was frozen when it was its turn.
var errNoRound = errors.New("the agent was frozen in the meantime")

// arrivals are the Machines whose pods are about to be created, and what is known for their plans. Its owner is a Controller,
// whose mutex guards it.
type arrivals struct {
	// runs are those of the last round, with the statuses that the hub has. at is when that was; zero before the first one.
	runs []v1alpha1.NodeDisruptionRun
	at   time.Time
	// asking are the Machines that wait for an answer, by name, and since when, by UID.
	asking map[string]types.UID
	since  map[types.UID]time.Time
	// unwritten are the runs whose status the last round could not write.
	unwritten map[types.UID]error
}

// PlanFor returns the plan with which the pod of a Machine is to be created; empty for none. A Machine that a NeverJoin hits is
// in the status of its run on the hub before this returns, so that an agent that is restarted decides nothing twice.
func (c *Controller) PlanFor(ctx context.Context, machine *v1alpha1.Machine) (string, error) {
	if err := c.Freeze.Check(); err != nil {
		return "", err
	}
	open, plan := c.planKnown(machine)
	if !open {
		return plan, nil
	}
	c.working.Lock()
	defer c.working.Unlock()
	var err error
	if c.isAsking(machine) { // Else the round of another Machine has decided about this one.
		err = c.advanceRuns(ctx)
	}
	if frozen := c.Freeze.Check(); frozen != nil { // Then nothing was decided.
		return "", frozen
	}
	if err := c.undecidedError(machine, err); err != nil && c.isWaiting(machine) {
		return "", fmt.Errorf("deciding whether a node disruption hits machine %s: %w", machine.Name, err)
	}
	return c.concludePlan(machine), nil
}

// planKnown returns a Machine's plan, or that it is still to be decided; then the Machine is asking.
func (c *Controller) planKnown(machine *v1alpha1.Machine) (open bool, plan string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.arrivals.at.IsZero() && c.Clock.Since(c.arrivals.at) <= interval && len(c.openRuns(machine)) == 0 {
		return false, c.planOf(machine)
	}
	c.arrivals.asking[machine.Name] = machine.UID
	if _, asked := c.arrivals.since[machine.UID]; !asked {
		c.arrivals.since[machine.UID] = c.Clock.Now()
	}
	return true, ""
}

// openRuns are the runs that may hit a Machine whose pod is created now, and that have not decided about it.
func (c *Controller) openRuns(machine *v1alpha1.Machine) []*v1alpha1.NodeDisruptionRun {
	var open []*v1alpha1.NodeDisruptionRun
	for i := range c.arrivals.runs {
		if run := &c.arrivals.runs[i]; mayArrive(run, machine, c.Clock.Now()) && !hitsMachine(&run.Status, machine.Name) {
			open = append(open, run)
		}
	}
	return open
}

func (c *Controller) planOf(machine *v1alpha1.Machine) string {
	return encodePlan(nil, runsByNode(c.arrivals.runs, c.Clock.Now())[machine.Name])
}

func (c *Controller) isAsking(machine *v1alpha1.Machine) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.arrivals.asking[machine.Name] == machine.UID
}

// isWaiting reports whether a Machine may wait longer for an answer.
func (c *Controller) isWaiting(machine *v1alpha1.Machine) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Clock.Now().Sub(c.arrivals.since[machine.UID]) < patience
}

// undecidedError is why it is not decided whether a run hits a Machine; nil if it is. failed is the error of the round, which may be
// about other objects.
func (c *Controller) undecidedError(machine *v1alpha1.Machine, failed error) error {
	if c.isAsking(machine) {
		return cmp.Or(failed, errNoRound)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, run := range c.openRuns(machine) {
		if err := c.arrivals.unwritten[run.UID]; err != nil {
			return err
		}
	}
	return nil
}

// concludePlan returns the plan of a Machine about which all is decided.
func (c *Controller) concludePlan(machine *v1alpha1.Machine) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.arrivals.asking, machine.Name)
	delete(c.arrivals.since, machine.UID)
	return c.planOf(machine)
}

// arrivingMachines are the Machines that wait for an answer. The round that starts decides about them.
func (c *Controller) arrivingMachines() map[string]types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.arrivals.asking)
}

// rememberRound notes what the hub has of the runs, and that the Machines of this round need no other one.
func (c *Controller) rememberRound(runs []v1alpha1.NodeDisruptionRun, decided map[string]types.UID, unwritten map[types.UID]error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrivals.runs, c.arrivals.at, c.arrivals.unwritten = runs, c.Clock.Now(), unwritten
	for name, uid := range decided {
		if c.arrivals.asking[name] == uid {
			delete(c.arrivals.asking, name)
		}
	}
	for uid, since := range c.arrivals.since {
		if c.Clock.Now().Sub(since) > 2*patience { // It is gone, or has not asked again.
			delete(c.arrivals.since, uid)
		}
	}
}

// hitsMachine reports whether a Machine is among the Nodes of a run.
func hitsMachine(status *v1alpha1.NodeDisruptionRunStatus, machine string) bool {
	return slices.ContainsFunc(status.Nodes, func(n v1alpha1.DisruptedNode) bool { return n.Name == machine })
}

// hasNeverJoin reports whether a run hits Machines that come while it is in progress.
func hasNeverJoin(run *v1alpha1.NodeDisruptionRun) bool {
	return slices.ContainsFunc(run.Spec.Faults, func(f disrupt.Fault) bool { return f.Type == disrupt.NeverJoin })
}

// mayArrive reports whether a run, as far as its target goes, hits a Machine whose pod is created now: one that has not joined,
// within a window of NeverJoin.
func mayArrive(run *v1alpha1.NodeDisruptionRun, machine *v1alpha1.Machine, now time.Time) bool {
	if !hasNeverJoin(run) || !carriedOut(run, now) || machine.Spec.ProviderID != nil || machine.DeletionTimestamp != nil {
		return false
	}
	active, _ := disrupt.At(entriesOf(run), machine.Name, now)
	if !slices.ContainsFunc(active, func(a disrupt.Active) bool { return a.Entry.Fault.Type == disrupt.NeverJoin }) {
		return false
	}
	return isTarget(run, machine)
}

// isTarget reports whether a Machine whose Node has not joined is of a run's target, and not excluded from it.
func isTarget(run *v1alpha1.NodeDisruptionRun, machine *v1alpha1.Machine) bool {
	target := run.Spec.Target
	chosen, err := metav1.LabelSelectorAsSelector(orEverything(target.MachineSelector))
	if err != nil {
		return false
	}
	excluded, err := metav1.LabelSelectorAsSelector(target.Exclude) // Nil selects nothing.
	return err == nil && !excluded.Matches(labels.Set(machine.Labels)) && matchesTarget(target, chosen, machine, nil)
}

// addArrivals adds Machines that come now to the Nodes of a run. Those that were hit stay so: what is added is what mode and value
// allow for all Machines that the run had to choose from until now. Of several that come at the same time the seed chooses.
func (w *World) addArrivals(run *v1alpha1.NodeDisruptionRun, status *v1alpha1.NodeDisruptionRunStatus) {
	if len(w.Arriving) == 0 || w.Frozen {
		return
	}
	coming, candidates := w.comingTo(run, status)
	if len(coming) == 0 {
		return
	}
	selection, err := selectionOf(run, candidates)
	if err != nil {
		return
	}
	free := min(selection.Count(candidates)-int(status.Selected), mostNodes-len(status.Nodes))
	if selection.MaxUnavailable != nil {
		free = min(free, int(*selection.MaxUnavailable)-w.countUnavailable(run, status))
	}
	all := disrupt.Selection{Seed: run.Spec.SeedValue(), Mode: disrupt.ModeAll}
	came := metav1.NewTime(w.Now.Truncate(time.Second))
	selected := all.Select(coming)
	for _, name := range selected[:max(0, min(free, len(selected)))] {
		status.Nodes = append(status.Nodes, v1alpha1.DisruptedNode{Name: name, ArrivedAt: &came})
		status.Selected++
	}
	slices.SortFunc(status.Nodes, func(a, b v1alpha1.DisruptedNode) int { return cmp.Compare(a.Name, b.Name) })
}

// comingTo are the Machines that a run may hit now because they come, and how many it had to choose from until now, with these.
func (w *World) comingTo(run *v1alpha1.NodeDisruptionRun, status *v1alpha1.NodeDisruptionRunStatus) (coming []disrupt.Candidate, candidates int) {
	candidates = int(status.Candidates)
	for i := range w.Machines {
		machine := &w.Machines[i]
		_, made := w.Pods[machine.Name]
		switch {
		case hitsMachine(status, machine.Name):
		case w.Arriving[machine.Name] == machine.UID && !made && w.Nodes[machine.Name] == nil && mayArrive(run, machine, w.Now):
			coming = append(coming, disrupt.Candidate{Name: machine.Name})
			candidates++
		case machine.DeletionTimestamp == nil && !machine.CreationTimestamp.Before(status.StartTime) && isTarget(run, machine):
			candidates++ // It came earlier, and was not hit.
		}
	}
	for i := range status.Nodes {
		if status.Nodes[i].ArrivedAt != nil {
			candidates++
		}
	}
	return coming, candidates
}

// countUnavailable is how many Machines of a run's target are unavailable: those that it hits, and others that are so. One that has
// come since the run started, and is not hit, will be Ready soon.
func (w *World) countUnavailable(run *v1alpha1.NodeDisruptionRun, status *v1alpha1.NodeDisruptionRunStatus) int {
	chosen, err := metav1.LabelSelectorAsSelector(orEverything(run.Spec.Target.MachineSelector))
	if err != nil {
		return 0
	}
	count := 0
	for i := range w.Machines {
		machine := &w.Machines[i]
		node := w.Nodes[machine.Name]
		switch {
		case !matchesTarget(run.Spec.Target, chosen, machine, node), node != nil && nodes.Ready(node):
		case hitsMachine(status, machine.Name), machine.CreationTimestamp.Before(status.StartTime):
			count++
		}
	}
	return count
}

// arrivalsMessage is what a run with NeverJoin that is in progress says of Machines that come; empty for others.
func arrivalsMessage(run *v1alpha1.NodeDisruptionRun, status *v1alpha1.NodeDisruptionRunStatus) string {
	if !hasNeverJoin(run) {
		return ""
	}
	arrived := 0
	for i := range status.Nodes {
		if status.Nodes[i].ArrivedAt != nil {
			arrived++
		}
	}
	return fmt.Sprintf("; Machines created during the faults are hit too, %d so far", arrived)
}
