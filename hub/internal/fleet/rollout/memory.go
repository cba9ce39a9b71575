package rollout

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/internal/backoff"
)

// forgetAfter is when a sighting is dropped that was not confirmed since.
const forgetAfter = time.Hour

// sightings remembers since when this process has seen something in a cluster of a fleet or, without a cluster, in the fleet.
// Another process starts over, and waits for it once more. The zero value is ready for use.
type sightings struct {
	mu  sync.Mutex
	all map[place]sighting
}

type sighting struct{ first, last time.Time }

// seenSince notes whether it is seen now, and returns since when it is; zero if it is not.
func (s *sightings) seenSince(at place, seen bool, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !seen {
		delete(s.all, at)
		return time.Time{}
	}
	if s.all == nil {
		s.all = map[place]sighting{}
	}
	known, found := s.all[at]
	if !found {
		maps.DeleteFunc(s.all, func(_ place, old sighting) bool { return now.Sub(old.last) > forgetAfter })
		known.first = now
	}
	known.last = now
	s.all[at] = known
	return known.first
}

// The time until a write is tried again that the API server refused. Meanwhile nothing is started in that cluster, and the
// others continue.
const (
	FirstRetry = backoff.First
	LastRetry  = backoff.Longest
)

// place is a cluster of a fleet.
type place struct {
	fleet   types.UID
	cluster string
}

// refusals are the writes that were refused.
type refusals = backoff.Failures[place]

// ByUID remembers a value for each object in this process. The zero value is ready for use, by several goroutines.
type ByUID[T any] struct {
	mu  sync.Mutex
	all map[types.UID]T
}

// ValueOf returns what is remembered of an object; the zero value if nothing is.
func (b *ByUID[T]) ValueOf(uid types.UID) (value T, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	value, known = b.all[uid]
	return value, known
}

// SetValue remembers a value of an object.
func (b *ByUID[T]) SetValue(uid types.UID, value T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[types.UID]T{}
	}
	b.all[uid] = value
}

// KeepOnly forgets all other objects.
func (b *ByUID[T]) KeepOnly(uids map[types.UID]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid := range b.all {
		if !uids[uid] {
			delete(b.all, uid)
		}
	}
}
