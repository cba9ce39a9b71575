// Package live keeps what a command shows up to date: the objects of some kinds by list and watch with the rights of the user, and a screen
// that is redrawn in place.
package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

const (
	// firstRetry and lastRetry are the shortest and the longest time before a kind is asked for again whose watch has ended or was refused.
	firstRetry, lastRetry = time.Second, 30 * time.Second
	// calmWatch is how long a watch lasts that ends for no fault of anybody: the next one starts without a delay.
	calmWatch = 10 * time.Second
)

// Kind is a kind whose objects are followed.
type Kind struct {
	// Name is what messages call it, such as Machine.
	Name string
	// List is an empty list of its objects.
	List client.ObjectList
	// Options choose some of them.
	Options []client.ListOption
}

// Snapshot is what is known of the objects of a kind.
type Snapshot struct {
	// List has the objects as the API server had them last. It is nil if they were never listed, and Err says why.
	List client.ObjectList
	// Err is why the objects are not followed now; nil while they are.
	Err error
	// Since is from when List is, if Err is not nil.
	Since time.Time
}

// readAtOnce is how many kinds are read at the same time: while the API server writes one, the program decodes another.
const readAtOnce = 3

const (
	// readingPercent is GOGC while kinds are read: nearly all of it is kept, and with Go's 100 a quarter of the time would go to garbage.
	readingPercent = 400
	// readingLimit is from which size on garbage is collected more often all the same.
	readingLimit = 512 << 20
)

// collectLess collects garbage less often until the function that it returns is called, unless the environment says how often.
func collectLess() (restore func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	percent, limit := debug.SetGCPercent(readingPercent), debug.SetMemoryLimit(readingLimit)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

// ReadKinds lists kinds, each in pages. An error keeps no other kind from being read.
func ReadKinds(ctx context.Context, c client.Reader, kinds []Kind) map[string]Snapshot {
	defer collectLess()()
	read := make([]Snapshot, len(kinds))
	var reading errgroup.Group
	reading.SetLimit(readAtOnce)
	for i, kind := range kinds {
		reading.Go(func() error {
			list, ok := kind.List.DeepCopyObject().(client.ObjectList)
			if !ok {
				read[i].Err = fmt.Errorf("%T is not a list", kind.List)
			} else if err := cmdutil.ListPaged(ctx, c, list, kind.Options...); err != nil {
				read[i].Err = err
			} else {
				read[i].List = list
			}
			return nil
		})
	}
	_ = reading.Wait() // The errors are in what was read.
	found := map[string]Snapshot{}
	for i, kind := range kinds {
		found[kind.Name] = read[i]
	}
	return found
}

// Store follows kinds.
type Store struct {
	client  client.WithWatch
	kinds   []*followed
	changed chan struct{}
}

// NewStore returns a Store that knows nothing before Run.
func NewStore(c client.WithWatch, kinds []Kind) *Store {
	s := &Store{client: c, changed: make(chan struct{}, 1)}
	for _, kind := range kinds {
		s.kinds = append(s.kinds, &followed{Kind: kind, objects: map[client.ObjectKey]client.Object{}, again: make(chan struct{}, 1)})
	}
	return s
}

// Run follows the kinds until ctx ends.
func (s *Store) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, kind := range s.kinds {
		all.Go(func() { kind.follow(ctx, s.client, s.wake) })
	}
	all.Wait()
}

// Changed receives when there is something new since it last received.
func (s *Store) Changed() <-chan struct{} { return s.changed }

func (s *Store) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// retry asks again at once for kinds whose watch has ended: the API server answers again.
func (s *Store) retry() {
	for _, kind := range s.kinds {
		select {
		case kind.again <- struct{}{}:
		default:
		}
	}
}

// Answered reports whether every kind was listed, or that was refused.
func (s *Store) Answered() bool {
	for _, kind := range s.kinds {
		kind.mu.Lock()
		answered := kind.listed || kind.err != nil
		kind.mu.Unlock()
		if !answered {
			return false
		}
	}
	return true
}

// Snapshots returns what is known of each kind, by its name. The objects are not copied: nobody may change them.
func (s *Store) Snapshots() map[string]Snapshot {
	found := map[string]Snapshot{}
	for _, kind := range s.kinds {
		found[kind.Name] = kind.snapshot()
	}
	return found
}

// followed is a kind with what is known of it.
type followed struct {
	Kind

	// version is from where the next watch starts; empty before a list. Only follow uses it.
	version string
	// again receives when the API server may be asked again before the delay is over.
	again chan struct{}

	mu      sync.Mutex
	objects map[client.ObjectKey]client.Object
	listed  bool
	// err is why the kind is not followed now, and current when it last was.
	err     error
	current time.Time
}

// errNotAList is a programmer's mistake.
var errNotAList = errors.New("not a list of objects")

// follow lists and watches until ctx ends. A watch that ends without an error is started again from where it was.
func (k *followed) follow(ctx context.Context, c client.WithWatch, wake func()) {
	delay := firstRetry
	for ctx.Err() == nil {
		started := time.Now()
		err := k.followOnce(ctx, c, wake)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			k.version = "" // The next list has what was missed meanwhile, also from a hub that was restored.
			k.noteError(err)
			wake()
		}
		switch {
		case apierrors.IsForbidden(err), meta.IsNoMatchError(err):
			delay = lastRetry
		case time.Since(started) > calmWatch:
			delay = firstRetry
		}
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-k.again:
			timer.Stop()
			delay = firstRetry
			continue
		case <-timer.C:
		}
		delay = min(2*delay, lastRetry)
	}
}

// followOnce lists the objects if need be, and watches them until that ends.
func (k *followed) followOnce(ctx context.Context, c client.WithWatch, wake func()) error {
	if k.version == "" {
		if err := k.list(ctx, c); err != nil {
			return err
		}
		wake()
	}
	options := append([]client.ListOption{&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: k.version, AllowWatchBookmarks: true}}}, k.Options...)
	events, err := c.Watch(ctx, k.List, options...)
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	defer events.Stop()
	k.noteError(nil)
	for event := range events.ResultChan() {
		if event.Type == watch.Error {
			return fmt.Errorf("watching: %w", apierrors.FromObject(event.Object))
		}
		if err := k.noteEvent(event); err != nil {
			return err
		}
		if event.Type != watch.Bookmark {
			wake()
		}
	}
	return nil
}

func (k *followed) list(ctx context.Context, c client.Reader) error {
	list, ok := k.List.DeepCopyObject().(client.ObjectList)
	if !ok {
		return errNotAList
	}
	if err := cmdutil.ListPaged(ctx, c, list, k.Options...); err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	objects := map[client.ObjectKey]client.Object{}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(client.Object)
		if !ok {
			return errNotAList
		}
		objects[client.ObjectKeyFromObject(object)] = object
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	k.version = list.GetResourceVersion()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.objects, k.listed, k.current = objects, true, time.Now() // Whether they are followed now says the watch.
	return nil
}

// noteEvent takes in what a watch says.
func (k *followed) noteEvent(event watch.Event) error {
	object, ok := event.Object.(client.Object)
	if !ok {
		return fmt.Errorf("watching: %T is not an object", event.Object)
	}
	k.version = object.GetResourceVersion()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current = time.Now()
	switch event.Type {
	case watch.Added, watch.Modified:
		k.objects[client.ObjectKeyFromObject(object)] = object
	case watch.Deleted:
		delete(k.objects, client.ObjectKeyFromObject(object))
	case watch.Bookmark, watch.Error:
	}
	return nil
}

func (k *followed) noteError(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil && k.err == nil && k.listed {
		k.current = time.Now() // The watch has been there until now.
	}
	k.err = err
}

func (k *followed) snapshot() Snapshot {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.listed {
		return Snapshot{Err: k.err}
	}
	list, ok := k.List.DeepCopyObject().(client.ObjectList)
	if !ok {
		return Snapshot{Err: errNotAList}
	}
	items := make([]runtime.Object, 0, len(k.objects))
	for _, object := range k.objects {
		items = append(items, object)
	}
	if err := meta.SetList(list, items); err != nil {
		return Snapshot{Err: fmt.Errorf("copying a list: %w", err)}
	}
	snapshot := Snapshot{List: list, Err: k.err}
	if k.err != nil {
		snapshot.Since = k.current
	}
	return snapshot
}
