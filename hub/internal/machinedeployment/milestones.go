package machinedeployment

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// reachedMemory is how long a deployment is remembered that is not looked at. It is gone then, or at rest.
const reachedMemory = 24 * time.Hour

// milestones remembers how far the rollout of each deployment has come at best. A Machine that fails, is replaced and
// fails again raises the counts over and over, and gets the rollout no further. The zero value is ready for use. A hub
// that starts anew goes on from what it finds.
type milestones struct {
	mu  sync.Mutex
	all map[types.UID]*milestone
}

type milestone struct {
	generation int64
	best       standings
	// at is when the rollout came as far as best; zero if this process has not seen it. used is for forgetting.
	at, used time.Time
}

// standings are the numbers of Machines by which a rollout is measured: those of the current template, and how many the
// sets of older templates are to have.
type standings struct {
	updated, ready, available, old int
}

// reached returns where the rollout of s stands.
func (s *scope) reached() standings {
	now := standings{updated: s.updated()}
	if s.current != nil {
		counts := s.machines[s.current.UID]
		now.ready, now.available = counts.Ready, counts.Available
	}
	for _, set := range s.sets {
		if set != s.current && set.DeletionTimestamp == nil {
			now.old += setReplicas(set)
		}
	}
	return now
}

// record takes in where the rollout of s stands, and returns when it last came further than ever before; zero if this
// process has not seen it. A change of the deployment's spec changes what the numbers mean, so they are taken as they are
// then; a new template is a step of its own.
func (m *milestones) record(s *scope, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[types.UID]*milestone{}
	}
	reached, known := s.reached(), m.all[s.deployment.UID]
	if known == nil {
		for uid, other := range m.all {
			if now.Sub(other.used) > reachedMemory {
				delete(m.all, uid)
			}
		}
		known = &milestone{generation: s.deployment.Generation, best: reached}
		m.all[s.deployment.UID] = known
	}
	known.used = now
	switch {
	case s.renumbered:
		known.best, known.at = reached, now
	case known.generation != s.deployment.Generation:
		known.best = reached
	case reached.beyond(known.best):
		known.best, known.at = reached.with(known.best), now
	}
	known.generation = s.deployment.Generation
	return known.at
}

// beyond tells whether there is more of what is wanted, or less of what is to go, than at best.
func (s standings) beyond(best standings) bool { return s.with(best) != best }

// with is the best of both.
func (s standings) with(best standings) standings {
	return standings{
		updated: max(s.updated, best.updated), ready: max(s.ready, best.ready),
		available: max(s.available, best.available), old: min(s.old, best.old),
	}
}
