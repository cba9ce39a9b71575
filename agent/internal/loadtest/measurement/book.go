package measurement

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/template"
)

// objectState is how far an object of a run is.
type objectState int

const (
	// making: its creation was asked for.
	making objectState = iota
	// made: the API server has answered that it is there.
	made
	// leaving: its deletion was asked for.
	leaving
)

// Object is one that the run makes.
type Object struct {
	Namespace, Name string
	Index           int

	template string
	kind     schema.GroupKind
	resource schema.GroupVersionResource
	state    objectState
	// ready is what the watch has shown last, or true for kinds that are ready when they are there.
	ready bool
	// created is when the answer to its creation came, and readyAt when the watch has shown it ready for the first time. The one or
	// the other may come first.
	created, readyAt time.Time
	// timed is that the time between them has been told.
	timed bool
	// lack is the pods that it asks for and does not have.
	lack lack
}

// place names an object of a template.
type place struct{ template, namespace, name string }

// Book has the objects of a run. All its methods may be called at the same time.
type Book struct {
	mu      sync.Mutex
	objects map[place]*Object
	// there are the objects of each template that are made, in no order, for those that only read or patch.
	there map[string][]*Object
	next  map[place]int // By template and namespace.
	// lacks are what objects lacked when they were deleted.
	lacks []lack
	// changed is closed, and recreated, when something has changed that may be waited for.
	changed chan struct{}
}

func newBook() *Book {
	return &Book{objects: map[place]*Object{}, there: map[string][]*Object{}, next: map[place]int{}, changed: make(chan struct{})}
}

// RegisterObject enters an object that is about to be made.
func (b *Book) RegisterObject(template *template.Template, namespace string) *Object {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := place{template: template.Name, namespace: namespace}
	index := b.next[of]
	b.next[of]++
	kind := template.Kind.GroupKind()
	o := &Object{
		Namespace: namespace, Name: template.ObjectName(index), Index: index,
		template: template.Name, kind: kind, resource: template.Resource, ready: readyAtOnce(kind),
	}
	b.objects[o.placeOf()] = o
	return o
}

func (o *Object) placeOf() place { return place{o.template, o.Namespace, o.Name} }

// markCreated notes that an object is there. If the watch has shown it ready already, it returns how long that took.
func (b *Book) markCreated(o *Object, at time.Time) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o.state == making {
		o.state, o.created = made, at
		b.there[o.template] = append(b.there[o.template], o)
	}
	b.wakeWaiters()
	return o.timeToReady()
}

// timeToReady is how long it took from the creation until the object was ready for the first time. It is told once.
func (o *Object) timeToReady() (time.Duration, bool) {
	if o.timed || o.created.IsZero() || o.readyAt.IsZero() {
		return 0, false
	}
	o.timed = true
	return max(o.readyAt.Sub(o.created), 0), true
}

// RemoveObject forgets an object.
func (b *Book) RemoveObject(o *Object) { b.removeObject(o.placeOf()) }

// removeObject forgets an object that could not be made, or is gone.
func (b *Book) removeObject(at place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.objects[at]; o != nil {
		o.state = leaving
		delete(b.objects, at)
		b.wakeWaiters()
	}
}

// MarkDeleting notes that an object is to be deleted, and reports whether it was there to be, and how long it had waited to be ready: no time
// if it has been.
func (b *Book) MarkDeleting(o *Object, now time.Time) (waited time.Duration, was bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.objects[o.placeOf()] != o || o.state != made {
		return 0, false
	}
	o.state = leaving
	b.endLack(o, now)
	return o.waitedFor(now), true
}

// waitedFor is how long an object has not been ready since it was made; no time if it has been at some time.
func (o *Object) waitedFor(now time.Time) time.Duration {
	if o.ready || o.created.IsZero() || !o.readyAt.IsZero() {
		return 0
	}
	return max(now.Sub(o.created), 1)
}

// unfinishedRollouts is how long the Deployments that are there have waited to be ready for the first time.
func (b *Book) unfinishedRollouts(now time.Time) []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []time.Duration
	for _, o := range b.objects {
		if waited := o.waitedFor(now); o.kind == deploymentKind && o.state == made && waited > 0 {
			found = append(found, waited)
		}
	}
	return found
}

// observeObject notes what the watch shows of an object. If that is ready for the first time, it returns how long that took.
func (b *Book) observeObject(at place, ready bool, now time.Time) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.objects[at]
	if o == nil || o.ready == ready {
		return 0, false
	}
	o.ready = ready
	if ready && o.readyAt.IsZero() {
		o.readyAt = now
	}
	b.wakeWaiters()
	return o.timeToReady()
}

// wakeWaiters wakes all that wait. The caller holds mu.
func (b *Book) wakeWaiters() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// NthObject is one of the objects of a template that are there: for growing n all of them, again and again. It is nil where there is none.
func (b *Book) NthObject(template string, n int) *Object {
	b.mu.Lock()
	defer b.mu.Unlock()
	for list := b.there[template]; len(list) > 0; list = b.there[template] {
		i := n % len(list)
		if list[i].state == made {
			return list[i]
		}
		list[i] = list[len(list)-1]
		b.there[template] = list[:len(list)-1]
	}
	return nil
}

// CountPending counts the objects of a template that are not ready yet, or are not gone yet.
func (b *Book) CountPending(template string, gone bool) (int, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	count := 0
	for _, o := range b.objects {
		switch {
		case o.template != template:
		case gone && o.state == leaving, !gone && o.state != leaving && (o.state == making || !o.ready):
			count++
		}
	}
	return count, b.changed
}

// ObjectsInTurn are the objects of a template that are there, the oldest of each namespace first, so that the namespaces take turns. Most is
// how many of each, given how many there are.
func (b *Book) ObjectsInTurn(template string, namespaces []string, most func(have int) int) []*Object {
	b.mu.Lock()
	defer b.mu.Unlock()
	objects := map[string][]*Object{}
	for _, o := range b.objects {
		if o.template == template && o.state == made {
			objects[o.Namespace] = append(objects[o.Namespace], o)
		}
	}
	for _, of := range objects {
		slices.SortFunc(of, func(a, b *Object) int { return cmp.Compare(a.Index, b.Index) })
	}
	var list []*Object
	for i, found := 0, true; found; i++ {
		found = false
		for _, namespace := range namespaces {
			if have := objects[namespace]; i < len(have) && i < most(len(have)) {
				list, found = append(list, have[i]), true
			}
		}
	}
	return list
}
