package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	machineset "github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
)

func (s *simulatedSet) resize(replicas, deployment int, sized bool) {
	if s.replicas != replicas {
		s.generation++
	}
	if s.replicas, s.locked = replicas, false; sized {
		s.sizedFor = &deployment
	}
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
	if w.leavesToNew(s) {
		p.Create = 0
	}
	for range p.Create {
		all = append(all, write{"make one", func() { s.machines = append(s.machines, w.machine(s)) }})
	}
	if generation := s.generation; len(all) > 0 || s.seen != generation {
		all = append(all, write{"status", func() { s.seen = max(s.seen, generation) }})
	}
	return all
}

// leavesToNew reports whether s makes no Machines because the set of the current template makes what s lacks.
func (w *world) leavesToNew(s *simulatedSet) bool {
	return w.in.leavesToNew() && s != w.current
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

// happens reports whether a Machine that stays is about to change.
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
