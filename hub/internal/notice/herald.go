package inventory

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// News is what to tell about an object.
type News struct {
	Kind, Reason, Action, Note string
}

// maxNote is the API server's limit for an event's note, in bytes.
const maxNote = 1024

// Emit sends an event about an object.
func (n News) Emit(recorder events.EventRecorder, about runtime.Object) {
	recorder.Eventf(about, nil, n.Kind, n.Reason, n.Action, "%s", n.Note[:min(len(n.Note), maxNote)])
}

// Herald tells of a state that lasts once, not each time that somebody looks. The zero value is ready for use.
type Herald struct {
	mu   sync.Mutex
	last map[string]News
}

// Tell sends an event about the state of name, unless it was the last that was told of it. Nil means that there is
// nothing to tell.
func (h *Herald) Tell(recorder events.EventRecorder, name string, about runtime.Object, state *News) {
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
		h.last = map[string]News{}
	}
	h.last[name] = *state
	state.Emit(recorder, about)
}
