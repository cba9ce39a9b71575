package observe

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/inventory"
)

// Outcome is how a drain has ended.
type Outcome string

// The outcomes.
const (
	Drained    Outcome = "Drained"
	TimedOut   Outcome = "TimedOut"
	Unfinished Outcome = "Unfinished"
)

// Drain is the drain of a Node.
type Drain struct {
	Node  string
	Group string
	Start time.Time
	End   time.Time
	// Outcome is Unfinished while it lasts.
	Outcome Outcome
	Message string
	// Blocked is how long each budget has refused evictions from the Node.
	Blocked map[string]time.Duration
	// Leaving is how long pods were on their way out, within their grace periods.
	Leaving time.Duration
	// Refused is how many pods a budget has refused at most at a time.
	Refused map[string]int
	open    bool
	// heldSince is since when a budget has refused evictions without a pause; zero if none does.
	heldSince time.Time
}

// Dip is how few Ready pods a workload had during the upgrade.
type Dip struct {
	Workload string
	// Want is how many were Ready before it.
	Want, Lowest int
	// Missing is how long it had fewer than Want, None how long it had none.
	Missing, None time.Duration
}

// Outage is a time in which the API server has not answered.
type Outage struct{ Start, End time.Time }

// longestStep bounds what is credited from one sample to the next: after a longer pause nobody knows what was in between.
const longestStep = 5 * time.Second

// leastHold is from when on a budget counts as what held pods on a Node that is gone. Machines and pods are watched apart: of a Machine that is
// gone, the last eviction may not be known yet.
const leastHold = 2 * time.Second

// Timeline is the course of an upgrade.
type Timeline struct {
	Drains  []*Drain
	Outages []Outage
	// Never says of budgets that have refused something why they never allow it.
	Never map[string]string
	dips  map[string]*Dip
	// current has the drain of each Machine that has one.
	current map[types.UID]*Drain
	known   map[types.UID]*v1alpha1.Machine
	last    *Sample
	// kubelets are those that Nodes had.
	kubelets map[Kubelet]bool
}

// NewTimeline starts with how many Ready pods each workload has.
func NewTimeline(before *Sample) *Timeline {
	t := &Timeline{Never: map[string]string{}, current: map[types.UID]*Drain{}, known: map[types.UID]*v1alpha1.Machine{}, kubelets: map[Kubelet]bool{}}
	t.RestartDips(before)
	t.Add(before)
	return t
}

// RestartDips forgets how many Ready pods workloads had until now: those of s count from here on. Those of DaemonSets do not: they go with
// their Nodes.
func (t *Timeline) RestartDips(s *Sample) {
	t.dips = map[string]*Dip{}
	for id, pods := range s.CountPods() {
		if strings.HasPrefix(id, string(inventory.DaemonSet)+" ") {
			continue
		}
		t.dips[id] = &Dip{Workload: id, Want: pods.Ready, Lowest: pods.Ready}
	}
}

// Add takes the next sample. What was so at the last one is taken to have lasted until this one.
func (t *Timeline) Add(s *Sample) {
	if t.last != nil {
		t.credit(t.last, min(max(s.At.Sub(t.last.At), 0), longestStep))
	}
	t.noteOutage(s)
	t.noteMachines(s)
	t.noteHolds(s)
	t.noteDips(s)
	t.noteKubelets(s)
	t.last = s
}

func (t *Timeline) noteOutage(s *Sample) {
	switch wasAway := t.last != nil && !t.last.Answered; {
	case s.Answered && wasAway:
		t.Outages[len(t.Outages)-1].End = s.At
	case !s.Answered && !wasAway:
		t.Outages = append(t.Outages, Outage{Start: s.At, End: s.At})
	case !s.Answered:
		t.Outages[len(t.Outages)-1].End = s.At
	}
}

func (t *Timeline) noteMachines(s *Sample) {
	there := map[types.UID]bool{}
	for _, machine := range s.Machines {
		there[machine.UID] = true
		t.known[machine.UID] = machine
		t.noteMachine(machine, s)
	}
	for uid, machine := range t.known {
		if there[uid] {
			continue
		}
		delete(t.known, uid)
		drain := t.current[uid]
		if drain == nil && machine.Status.NodeRef != nil {
			drain = t.start(machine, s.At) // It has gone from one sample to the next.
		}
		if drain == nil || !drain.open {
			continue
		}
		if since := drain.heldSince; !since.IsZero() && s.At.Sub(since) >= leastHold {
			drain.update(hasTimedOut, "the Node was removed while a budget held pods on it", s.At)
		} else {
			drain.update(isDrained, "", s.At)
		}
	}
}

// noteHolds follows which drains a budget holds, of Nodes whose Machines are there.
func (t *Timeline) noteHolds(s *Sample) {
	for _, drain := range t.current {
		switch {
		case !drain.open:
		case len(s.loadOf(drain.Node).refusals) == 0:
			drain.heldSince = time.Time{}
		case drain.heldSince.IsZero():
			drain.heldSince = s.At
		}
	}
}

// noteMachine follows the drain of a Machine. That of one which is being deleted starts with its deletion, and ends when no pod is left to
// drain: its agent need not have said anything of it.
func (t *Timeline) noteMachine(machine *v1alpha1.Machine, s *Sample) {
	drain := t.current[machine.UID]
	how, condition := drainOf(machine)
	message := ""
	if condition != nil {
		message = condition.Message
	}
	deleting := !machine.DeletionTimestamp.IsZero() && machine.Status.NodeRef != nil
	if starts(drain, how, deleting) {
		drain = t.start(machine, s.At)
	}
	if drain == nil || !drain.open {
		return
	}
	switch left := s.loadOf(drain.Node); {
	case how == isDrained, how == hasTimedOut:
		drain.update(how, message, s.At)
	case deleting && s.Answered && left.staying+left.leaving == 0, !deleting && condition == nil:
		drain.update(isDrained, "", s.At) // An update in place takes the condition away when it is through.
	default:
		drain.update(isDraining, message, s.At)
	}
}

// starts reports whether a Machine has a drain that was not there before: its first, or another one for an update in place.
func starts(before *Drain, how draining, deleting bool) bool {
	if before == nil {
		return deleting || how != notDraining
	}
	return !before.open && how == isDraining && !deleting
}

func (t *Timeline) start(machine *v1alpha1.Machine, at time.Time) *Drain {
	drain := &Drain{
		Group: machine.Labels[v1alpha1.MachineDeploymentNameLabel], Start: at, End: at, Outcome: Unfinished,
		Blocked: map[string]time.Duration{}, Refused: map[string]int{}, open: true,
	}
	if drain.Node = machine.Name; machine.Status.NodeRef != nil {
		drain.Node = machine.Status.NodeRef.Name
	}
	t.current[machine.UID] = drain
	t.Drains = append(t.Drains, drain)
	return drain
}

func (d *Drain) update(how draining, message string, at time.Time) {
	d.End = at
	switch how {
	case isDrained:
		d.Outcome, d.Message, d.open = Drained, "", false
	case hasTimedOut:
		d.Outcome, d.Message, d.open = TimedOut, message, false
	case isDraining, notDraining:
		d.Message = message
	}
}

// credit adds the time for which everything was as in s.
func (t *Timeline) credit(s *Sample, took time.Duration) {
	for _, drain := range t.current {
		if !drain.open {
			continue
		}
		now := s.loadOf(drain.Node)
		for budget, pods := range now.refusals {
			drain.Blocked[budget] += took
			drain.Refused[budget] = max(drain.Refused[budget], pods)
		}
		if now.leaving > 0 {
			drain.Leaving += took
		}
		for _, budget := range s.Budgets {
			name := budget.Namespace + "/" + budget.Name
			if why := Never(budget); why != "" && now.refusals[name] > 0 && t.Never[name] == "" {
				t.Never[name] = why
			}
		}
	}
	if !s.Answered {
		return
	}
	counts := s.CountPods()
	for id, dip := range t.dips {
		if counts[id].Ready < dip.Want {
			dip.Missing += took
		}
		if counts[id].Ready == 0 && dip.Want > 0 {
			dip.None += took
		}
	}
}

func (t *Timeline) noteDips(s *Sample) {
	if !s.Answered {
		return
	}
	counts := s.CountPods()
	for id, dip := range t.dips {
		dip.Lowest = min(dip.Lowest, counts[id].Ready)
	}
}

// ListDips are those of the workloads that had fewer Ready pods than before, those first that had none for longest.
func (t *Timeline) ListDips() []Dip {
	var all []Dip
	for _, dip := range t.dips {
		if dip.Lowest < dip.Want {
			all = append(all, *dip)
		}
	}
	slices.SortFunc(all, func(a, b Dip) int {
		return cmp.Or(cmp.Compare(b.None, a.None), cmp.Compare(b.Missing, a.Missing), cmp.Compare(a.Workload, b.Workload))
	})
	return all
}

// Last is the last sample.
func (t *Timeline) Last() *Sample { return t.last }
