package reconciler

import "sigs.k8s.io/controller-runtime/pkg/event"

// newsBuffer takes as many events before sending one costs a goroutine.
const newsBuffer = 256

// News is a channel on which one controller wakes another.
type News chan event.GenericEvent

// NewNews returns News that nothing has been sent on.
func NewNews() News { return make(News, newsBuffer) }

// Send sends e, and does not wait for the reader.
func (n News) Send(e event.GenericEvent) {
	select {
	case n <- e:
	default:
		go func() { n <- e }()
	}
}
