package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// world simulates one deployment with its sets, their controllers and the agent. Each controller takes its decision
// at one moment and carries it out write by write, while everything else continues in between. The real planner of
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
	// peak is the most replicas that each of these sets gets, and goes are Machines that do not stay; for replays.
	peak map[string]int
	goes []string
	// started is how many Machines the sets were to have when it started to run.
	begun int
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
		add(func() { s.resize(scale.To, replicas, p.Sized) }, "%s %d→%d", s.name, scale.From, scale.To)
	}
	for _, s := range w.sets {
		if p.Sized && s.replicas > 0 && (s.sizedFor == nil || *s.sizedFor != replicas) {
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
		p := newPool(s.facts(), !w.leavesToNew(s))
		most += p.mostMachines()
		least += p.remainingAvailable()
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

// run continues until nothing is left to do; each is called after each step.
func (w *world) run(each func()) {
	w.begun = 0
	for _, s := range w.sets {
		w.begun += s.replicas
	}
	for i := 0; w.step(); i++ {
		each()
		if i > 5000 {
			w.fatal("does not end\n%s", strings.Join(w.log, "\n"))
		}
	}
}

// rested says what must hold when nothing is left to do. A rollout that is paused keeps the Machines that it had beyond
// replicas when it started to run, as far as the surge allows, while they are of several templates.
func (w *world) rested() {
	wanted, machines, inUse, most := 0, 0, 0, w.in.Replicas
	for _, s := range w.sets {
		if wanted += s.replicas; s.replicas > 0 {
			inUse++
		}
		machines += len(s.machines)
		if s.locked {
			w.fatal("%s is locked forever\n%s", s.name, strings.Join(w.log, "\n"))
		}
	}
	if len(w.sets) == 0 && w.in.Paused {
		return
	}
	if w.in.Paused && w.in.Replicas > 0 && inUse > 1 {
		surge, _ := w.in.Strategy.Bounds(w.in.Replicas)
		most = min(max(w.begun, w.in.Replicas), w.in.Replicas+surge)
	}
	if wanted != machines || wanted != most {
		w.fatal("ended with %d wanted and %d machines, not %d, for %d replicas\n%s", wanted, machines, most, w.in.Replicas, strings.Join(w.log, "\n"))
	}
}

// rolled says that no Machine of an older template is left.
func (w *world) rolled() {
	if w.current == nil || len(w.current.machines) != w.in.Replicas {
		w.fatal("ended with machines of an older template\n%s", strings.Join(w.log, "\n"))
	}
}
