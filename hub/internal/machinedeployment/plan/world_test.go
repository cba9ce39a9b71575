package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	machineset "github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
)

// world simulates one deployment with its sets, their controllers and the agent. Each controller takes its decision
// at one moment and carries it out write by write, while everything else goes on in between. The real planner of
// MachineSets chooses the victims.
type world struct {
	// choose returns a number below n: by it everything happens that could happen otherwise.
	choose func(n int, what string) int
	fatal  func(format string, args ...any)

	// name is the deployment's, where there are several.
	name    string
	in      Input
	policy  v1alpha1.DeletePolicy
	sets    []*simulatedSet
	current *simulatedSet
	// revision counts the templates that there were.
	revision, machines int
	// pending are the writes that the deployment's controller still has to do.
	pending []write
	// crashes is how often it may die amid its writes.
	crashes int
	// update decides how an update in place ends: empty is well.
	update func(*simulatedMachine) string
	// slow: Machines that are being deleted go when nothing else can happen.
	slow bool
	log  []string
	// peers, if not nil, are the other worlds that share the surge with this one.
	peers func() []*world
}

type write struct {
	what string
	do   func()
}

type simulatedSet struct {
	name             string
	created          time.Time
	replicas         int
	sizedFor         *int
	locked, refused  bool
	generation, seen int
	machines         []*simulatedMachine
	pending          []write
}

type simulatedMachine struct {
	name      string
	created   time.Time
	deleting  bool
	ready     bool
	marked    bool
	priority  int
	update    string
	requested bool
	// broken: it never becomes ready.
	broken bool
}

func (m *simulatedMachine) available() bool { return m.ready && !m.deleting && m.update == "" }

func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	w.log = append(w.log, fmt.Sprintf("%-60s %s", line, w.state()))
}

// state shows each set as replicas/machines/available.
func (w *world) state() string {
	var sets []string
	for _, s := range w.sets {
		available := 0
		for _, m := range s.machines {
			if m.available() {
				available++
			}
		}
		sets = append(sets, fmt.Sprintf("%s %d/%d/%d", s.name, s.replicas, len(s.machines), available))
	}
	return strings.Join(sets, "  ")
}

func (w *world) machine(set *simulatedSet) *simulatedMachine {
	w.machines++
	return &simulatedMachine{
		name: fmt.Sprintf("%s-%d", set.name, w.machines), created: start.Add(time.Duration(w.machines) * time.Second),
		priority: v1alpha1.DefaultDeletionPriority,
	}
}

// add makes a set of a template that was once current.
func (w *world) add(replicas int) *simulatedSet {
	w.revision++
	s := &simulatedSet{name: fmt.Sprintf("r%d", w.revision), created: start.Add(time.Duration(w.revision) * time.Hour), replicas: replicas}
	w.sets = append(w.sets, s)
	return s
}

// filled is a set that has all its Machines, available.
func (w *world) filled(replicas int) *simulatedSet {
	s := w.add(replicas)
	for range replicas {
		m := w.machine(s)
		m.ready = true
		s.machines = append(s.machines, m)
	}
	return s
}

func (s *simulatedSet) facts() Set {
	f := Set{
		Name: s.name, Created: s.created, Replicas: s.replicas, Priority: v1alpha1.DefaultDeletionPriority,
		SizedFor: s.sizedFor, Locked: s.locked, Unseen: s.seen < s.generation, Refused: s.refused,
	}
	for _, m := range s.machines {
		f.Machines = append(f.Machines, Machine{
			Name: m.name, UID: types.UID(m.name), Created: m.created, Deleting: m.deleting, Ready: m.ready,
			Available: m.available(), Marked: m.marked, Priority: m.priority, Update: m.update, Requested: m.requested,
		})
	}
	return f
}

func (w *world) input() Input {
	in := w.in
	in.New, in.Old = nil, nil
	for _, s := range w.sets {
		facts := s.facts()
		if s == w.current {
			in.New = &facts
		} else {
			in.Old = append(in.Old, facts)
		}
	}
	if w.peers != nil {
		for _, peer := range w.peers() {
			in.Peers = append(in.Peers, peer.peer())
		}
	}
	return in
}

func (w *world) set(name string) *simulatedSet {
	i := slices.IndexFunc(w.sets, func(s *simulatedSet) bool { return s.name == name })
	return w.sets[i]
}

// deploy lets the deployment's controller do its next write, or decide. It reports false if there is nothing to do.
func (w *world) deploy() bool {
	if len(w.pending) > 0 {
		if w.crashes > 0 && w.choose(4, "crash") == 0 {
			w.crashes--
			w.pending = nil
			w.note("deployment dies")
			return true
		}
		next := w.pending[0]
		w.pending = w.pending[1:]
		next.do()
		w.note("deployment: %s", next.what)
		return true
	}
	if w.peers != nil && slices.ContainsFunc(w.peers(), func(peer *world) bool { return len(peer.pending) > 0 }) {
		return false // Only one of a group acts at a time.
	}
	p := Decide(w.input())
	if w.pending = w.writes(p); !p.Empty() {
		w.log = append(w.log, fmt.Sprintf("deployment decides: %s (%s)", describe(p), p.Why))
	}
	return len(w.pending) > 0
}

// writes are what the controller does for p, in its order.
func (w *world) writes(p Plan) []write {
	var all []write
	replicas := w.in.Replicas
	add := func(do func(), what string, args ...any) {
		all = append(all, write{fmt.Sprintf(what, args...), do})
	}
	for _, scale := range slices.Concat(p.Settle, p.Scale) {
		s := w.set(scale.Name)
		if scale.From != s.replicas || scale.To < 0 {
			w.fatal("strange scale %+v of a set with %d", scale, s.replicas)
		}
		add(func() { s.resize(scale.To, replicas) }, "%s %d→%d", s.name, scale.From, scale.To)
	}
	for _, s := range w.sets {
		if s.replicas > 0 && (s.sizedFor == nil || *s.sizedFor != replicas) {
			add(func() { s.sizedFor = &replicas }, "note %d replicas on %s", replicas, s.name)
		}
	}
	if p.CreateNew {
		add(func() {
			w.current = w.add(p.NewReplicas)
			w.current.sizedFor = &replicas
			w.current.generation = 1
		}, "new set with %d", p.NewReplicas)
	}
	target := w.current
	lock := func(s *simulatedSet) {
		add(func() { s.locked = true }, "lock %s", s.name)
	}
	if len(p.Move) > 0 {
		lock(target)
	}
	locked := map[string]bool{}
	for _, pick := range p.Move {
		if !locked[pick.Set] {
			locked[pick.Set] = true
			lock(w.set(pick.Set))
		}
	}
	for _, pick := range p.Move {
		add(func() { w.set(pick.Set).hand(pick, target) }, "move %s to %s", pick.Name, target.name)
	}
	if p.Remove != nil {
		lock(w.set(p.Remove.Set))
		p.Replace = append(p.Replace, *p.Remove)
	}
	for _, pick := range p.Replace {
		add(func() { w.set(pick.Set).deleteMachine(pick.Name) }, "delete %s", pick.Name)
	}
	return all
}

func (s *simulatedSet) resize(replicas, deployment int) {
	if s.replicas != replicas {
		s.generation++
	}
	s.replicas, s.locked, s.sizedFor = replicas, false, &deployment
}

func (s *simulatedSet) hand(pick Pick, target *simulatedSet) {
	i := slices.IndexFunc(s.machines, func(m *simulatedMachine) bool { return m.name == pick.Name })
	if i < 0 || s.machines[i].deleting || s.machines[i].available() && !pick.Available {
		return
	}
	m := s.machines[i]
	s.machines = slices.Delete(s.machines, i, i+1)
	m.update, m.requested = v1alpha1.ReasonAwaitingUpdate, false
	target.machines = append(target.machines, m)
}

func (s *simulatedSet) deleteMachine(name string) {
	for _, m := range s.machines {
		if m.name == name {
			m.deleting = true
		}
	}
}

// keep lets a set's controller do its next write, or decide.
func (w *world) keep(s *simulatedSet) bool {
	if len(s.pending) == 0 {
		s.pending = w.decideSet(s)
	}
	if len(s.pending) == 0 {
		return false
	}
	next := s.pending[0]
	s.pending = s.pending[1:]
	next.do()
	w.note("set %s: %s", s.name, next.what)
	return true
}

func (w *world) decideSet(s *simulatedSet) []write {
	in := machineset.Input{Now: start, Replicas: s.replicas, Transferring: s.locked, Policy: w.policy}
	for _, m := range s.machines {
		in.Machines = append(in.Machines, machineset.Machine{
			Name: m.name, UID: types.UID(m.name), Created: m.created, Owned: true, Matches: true, Deleting: m.deleting,
			Marked: m.marked, MarkedAt: start, MarkSeen: start, Priority: m.priority, Ready: m.ready, Available: m.available(),
		})
	}
	p := machineset.Decide(in)
	var all []write
	for _, victim := range p.Delete {
		all = append(all, write{"delete " + victim.Name, func() { s.deleteMachine(victim.Name) }})
	}
	for range p.Create {
		all = append(all, write{"make one", func() { s.machines = append(s.machines, w.machine(s)) }})
	}
	if generation := s.generation; len(all) > 0 || s.seen != generation {
		all = append(all, write{"status", func() { s.seen = max(s.seen, generation) }})
	}
	return all
}

// live lets one thing happen in the workload cluster: a Machine becomes available, an update ends, or a Machine
// that is being deleted goes.
func (w *world) live() bool {
	type place struct {
		set     *simulatedSet
		machine *simulatedMachine
	}
	var open []place
	for _, s := range w.sets {
		for _, m := range s.machines {
			if m.deleting && !w.slow || m.happens() {
				open = append(open, place{s, m})
			}
		}
	}
	if len(open) == 0 && w.slow {
		return w.letGo()
	}
	if len(open) == 0 {
		return false
	}
	at := open[w.choose(len(open), "what happens")]
	m := at.machine
	switch {
	case m.deleting:
		at.set.machines = slices.DeleteFunc(at.set.machines, func(other *simulatedMachine) bool { return other == m })
		w.note("%s is gone", m.name)
	case m.update != "":
		if m.update = w.update(m); m.update == "" {
			m.ready = true
		}
		w.note("%s: update ends %s", m.name, m.update)
	default:
		m.ready = true
		w.note("%s is ready", m.name)
	}
	return true
}

// happens tells whether a Machine that stays is about to change.
func (m *simulatedMachine) happens() bool {
	return !m.deleting && (m.update == v1alpha1.ReasonAwaitingUpdate || !m.ready && m.update == "" && !m.broken)
}

// letGo ends one deletion.
func (w *world) letGo() bool {
	for _, s := range w.sets {
		for i, m := range s.machines {
			if m.deleting {
				s.machines = slices.Delete(s.machines, i, i+1)
				w.note("%s is gone at last", m.name)
				return true
			}
		}
	}
	return false
}

// step lets a random controller, or the workload cluster, do something; it reports false when nothing is left.
func (w *world) step() bool {
	actors := []func() bool{w.deploy, w.live}
	for _, s := range w.sets {
		actors = append(actors, func() bool { return w.keep(s) })
	}
	for len(actors) > 0 {
		i := w.choose(len(actors), "who acts")
		if actors[i]() {
			return true
		}
		actors = slices.Delete(actors, i, i+1)
	}
	return false
}

// counts are the Machines that there are, and how many of them are available.
func (w *world) counts() (machines, available int) {
	for _, s := range w.sets {
		machines += len(s.machines)
		for _, m := range s.machines {
			if m.available() {
				available++
			}
		}
	}
	return machines, available
}

// bounds are the most Machines and the fewest available ones that there may be from now on: what the budget says,
// or what is beyond it already.
func (w *world) bounds() (most, least int) {
	surge, unavailable := w.in.Strategy.Bounds(w.in.Replicas)
	most, least = 0, 0
	for _, s := range w.sets {
		p := newPool(s.facts())
		most += p.occupies()
		least += p.kept()
	}
	return max(most, w.in.Replicas+surge), min(least, w.in.Replicas-unavailable)
}

// check compares what there is with bounds.
func (w *world) check(most, least int) {
	machines, available := w.counts()
	if machines > most {
		w.fatal("%d machines: more than %d\n%s", machines, most, strings.Join(w.log, "\n"))
	}
	if available < least {
		w.fatal("%d available: fewer than %d\n%s", available, least, strings.Join(w.log, "\n"))
	}
}

// run goes on until nothing is left to do; each is called after each step.
func (w *world) run(each func()) {
	for i := 0; w.step(); i++ {
		each()
		if i > 5000 {
			w.fatal("does not end\n%s", strings.Join(w.log, "\n"))
		}
	}
}

// rested says what must hold when nothing is left to do.
func (w *world) rested() {
	wanted, machines, surge := 0, 0, 0
	for _, s := range w.sets {
		wanted += s.replicas
		machines += len(s.machines)
		if s.locked {
			w.fatal("%s is locked for ever\n%s", s.name, strings.Join(w.log, "\n"))
		}
	}
	if w.in.Paused {
		surge, _ = w.in.Strategy.Bounds(w.in.Replicas)
	}
	if len(w.sets) == 0 && w.in.Paused {
		return
	}
	if wanted != machines || wanted < w.in.Replicas || wanted > w.in.Replicas+surge {
		w.fatal("ended with %d wanted and %d machines for %d replicas\n%s", wanted, machines, w.in.Replicas, strings.Join(w.log, "\n"))
	}
}

// rolled says that no Machine of an older template is left.
func (w *world) rolled() {
	if w.current == nil || len(w.current.machines) != w.in.Replicas {
		w.fatal("ended with machines of an older template\n%s", strings.Join(w.log, "\n"))
	}
}
