package reconciler

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// EventDeduplicator tells of a state that lasts once, not at each reconciliation. The zero value is ready for use.
type EventDeduplicator struct {
	mu   sync.Mutex
	last map[string]Event
}

// Send sends an event about the state of name, unless it was the last that was told of it. Nil means that there is
// nothing to tell.
func (h *EventDeduplicator) Send(recorder events.EventRecorder, name string, about runtime.Object, state *Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if state == nil {
		delete(h.last, name)
		return
	}
	if h.last[name] == *state {
		return
	}
	if h.last == nil {
		h.last = map[string]Event{}
	}
	h.last[name] = *state
	state.Send(recorder, about)
}
