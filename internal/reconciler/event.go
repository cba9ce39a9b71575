package reconciler

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

const (
	// maxNote is the API server's limit for an event's note, in bytes.
	maxNote = 1024
	// mostNames is how many of many names a message has.
	mostNames = 10
)

// Event is what to tell about an object.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type, Reason, Action, Note string
	// Related is a second object that it is about; nil for none.
	Related runtime.Object
}

// NormalEvent is an event that tells of the usual course.
func NormalEvent(reason, action, note string) Event {
	return Event{Type: corev1.EventTypeNormal, Reason: reason, Action: action, Note: note}
}

// WarningEvent is an event that a person should look at.
func WarningEvent(reason, action, note string) Event {
	return Event{Type: corev1.EventTypeWarning, Reason: reason, Action: action, Note: note}
}

// With returns e with a related object.
func (e Event) With(related runtime.Object) Event {
	e.Related = related
	return e
}

// Send sends the event about an object. The middle of a note that is too long is left out.
func (e Event) Send(recorder events.EventRecorder, about runtime.Object) {
	recorder.Eventf(about, e.Related, e.Type, e.Reason, e.Action, "%s", conditions.ShortenBytes(e.Note, maxNote))
}

// ListFew lists the first of names, in their order, and how many more there are.
func ListFew(names []string) string {
	list := names
	if more := len(names) - mostNames; more > 0 {
		list = append(slices.Clone(names[:mostNames]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, ", ")
}

// EventDeduplicator tells of a state that lasts once, not at each reconciliation. The zero value is ready for use.
type EventDeduplicator struct {
	mu   sync.Mutex
	last map[string]Event
}

// Send sends an event about the state of name, unless it was the last that was told of it. Nil means that there is
// nothing to tell.
func (d *EventDeduplicator) Send(recorder events.EventRecorder, name string, about runtime.Object, state *Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if state == nil {
		delete(d.last, name)
		return
	}
	if d.last[name] == *state {
		return
	}
	if d.last == nil {
		d.last = map[string]Event{}
	}
	d.last[name] = *state
	state.Send(recorder, about)
}
