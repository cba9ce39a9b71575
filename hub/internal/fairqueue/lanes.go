package fairqueue

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// lanes are the requests of a workqueue that wait: those of each namespace in the order in which they came. Next is one of the namespace
// that has the fewest workers; of equals, the one that has waited longest for its turn.
type lanes struct {
	// share is how many workers one namespace may have.
	share int

	mu      sync.Mutex
	waiting map[string][]reconcile.Request
	// turns are the namespaces with waiting requests, the next first.
	turns []string
	// total is the number of waiting requests.
	total int
	// busy is the number of requests that were handed out, by namespace.
	busy map[string]int
	// closed: the share is no more. dropping: nothing is handed out any more.
	closed, dropping bool
}

func newLanes(share int) *lanes {
	return &lanes{share: share, waiting: map[string][]reconcile.Request{}, busy: map[string]int{}}
}

// Touch implements workqueue.Queue. What waits keeps its place.
func (l *lanes) Touch(reconcile.Request) {}

// Push implements workqueue.Queue.
func (l *lanes) Push(request reconcile.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropping {
		return
	}
	if len(l.waiting[request.Namespace]) == 0 {
		l.turns = append(l.turns, request.Namespace)
	}
	l.waiting[request.Namespace] = append(l.waiting[request.Namespace], request)
	l.total++
}

// Len implements workqueue.Queue: it is the number of requests that may be handed out now. Those of a namespace that has its share of
// the workers may not.
func (l *lanes) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := l.total
	if l.closed {
		return open
	}
	for namespace, workers := range l.busy {
		if workers >= l.share {
			open -= len(l.waiting[namespace])
		}
	}
	return open
}

// Pop implements workqueue.Queue. It is called only while Len is not 0.
func (l *lanes) Pop() reconcile.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.nextTurn()
	namespace := l.turns[next]
	request := l.waiting[namespace][0]
	l.total--
	l.turns = slices.Delete(l.turns, next, next+1)
	if l.waiting[namespace] = l.waiting[namespace][1:]; len(l.waiting[namespace]) == 0 {
		delete(l.waiting, namespace)
	} else {
		l.turns = append(l.turns, namespace)
	}
	l.busy[namespace]++
	return request
}

// nextTurn is the place in turns of the namespace that is next. No more namespaces are busy than there are workers, so it looks at one more
// than that at most.
func (l *lanes) nextTurn() int {
	next := 0
	for i, namespace := range l.turns {
		if l.busy[namespace] < l.busy[l.turns[next]] {
			next = i
		}
		if l.busy[l.turns[next]] == 0 {
			break
		}
	}
	return next
}

// release takes in that the work on request has ended.
func (l *lanes) release(request reconcile.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy[request.Namespace]--; l.busy[request.Namespace] <= 0 {
		delete(l.busy, request.Namespace)
	}
}

// close lifts the shares, and drops what waits if asked to.
func (l *lanes) close(drop bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if drop {
		l.dropping, l.total, l.turns, l.waiting = true, 0, nil, map[string][]reconcile.Request{}
	}
}

func (l *lanes) countWaiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}
