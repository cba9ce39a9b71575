package rollout

import (
	"maps"
	"sync"
	"time"
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
