// Package scrape keeps what the metrics of a hub are computed from when they are scraped: what is in its cache, while it leads.
package scrape

import (
	"slices"
	"sync"
	"time"
)

// Patience bounds one scrape. What cannot be read in it is left out.
const Patience = 5 * time.Second

// Sources are what the leading hubs of this process compute metrics from. There is one, except in tests, and none in a hub
// that stands by or has lost its leadership. The zero value is ready for use.
type Sources[S comparable] struct {
	mu  sync.Mutex
	all []S
}

// Add adds a source until the returned function is called.
func (s *Sources[S]) Add(source S) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, source)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = slices.DeleteFunc(s.all, func(other S) bool { return other == source })
	}
}

// All returns the sources, the oldest first.
func (s *Sources[S]) All() []S {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}
