package dashboard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/overview"
)

const (
	// pageSize is how many objects are read at once.
	pageSize = 500
	// longestPage is how long the API server may take for that.
	longestPage = 30 * time.Second
	// watchTime is after how many seconds the API server is to end each watch, so that one that says nothing any more without having ended is
	// noticed. watchGrace is by how much it may be late.
	watchTime  = 60
	watchGrace = 15 * time.Second
	// recheck is how often the store tries again to read a kind that the user may not read, or that does not exist.
	recheck = 10 * time.Second
)

// store has the objects of all kinds that the user may read, kept up to date by one watch for each kind.
type store struct {
	client client.WithWatch
	scope  overview.Scope
	// refused, if not nil, is called when the API server does not know the user (any more).
	refused func()

	mu    sync.RWMutex
	kinds map[string]*kindObjects
	// version counts the changes, and changed is closed at the next one.
	version uint64
	changed chan struct{}
	contact contact
}

// kindObjects are the objects of a kind.
type kindObjects struct {
	newList func() client.ObjectList
	// options choose some of the objects. outside: the scope has none.
	options []client.ListOption
	outside bool
	objects map[client.ObjectKey]client.Object
	// unread says why they are not known: the first list was not read, or the user may not read them any more.
	unread error
	// broken says why changes since brokenAt are not known; nil if they are.
	broken   error
	brokenAt time.Time
	// version counts the changes of the kind.
	version uint64
}

// errNotReadYet is why a kind is not known at the start.
var errNotReadYet = errors.New("they have not been read yet")

func newStore(c client.WithWatch, scope overview.Scope) *store {
	s := &store{client: c, scope: scope, kinds: map[string]*kindObjects{}, changed: make(chan struct{})}
	for _, kind := range health.Kinds {
		of := &kindObjects{newList: kind.List, unread: errNotReadYet}
		options, inside := scope.Options(kind)
		if of.options, of.outside = options, !inside; of.outside {
			of.unread = errors.New(scope.Describe())
		}
		s.kinds[kind.Kind] = of
	}
	return s
}

// run follows all kinds until ctx ends.
func (s *store) run(ctx context.Context) {
	var following sync.WaitGroup
	for name, kind := range s.kinds {
		if !kind.outside {
			following.Go(func() { s.followKind(ctx, name) })
		}
	}
	following.Go(func() { s.followHub(ctx) })
	following.Wait()
}

// followKind keeps the objects of a kind up to date.
func (s *store) followKind(ctx context.Context, name string) {
	retry := wait.Backoff{Duration: time.Second, Factor: 2, Steps: 4, Cap: recheck, Jitter: 0.1}
	again := retry
	for ctx.Err() == nil {
		started := time.Now()
		err := s.listAndWatch(ctx, name)
		if ctx.Err() != nil {
			return
		}
		if time.Since(started) > recheck {
			again = retry
		}
		delay := again.Step()
		switch {
		case err == nil:
			delay = 0 // The API server has forgotten the version from which to continue.
		case apierrors.IsForbidden(err), meta.IsNoMatchError(err):
			delay = recheck
		}
		if err != nil {
			s.noteBroken(name, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}

// noteBroken notes that a kind is not followed. What the user may not read any more is forgotten; else what was known last stays.
func (s *store) noteBroken(name string, err error) {
	s.noteRefusal(err)
	s.update(func() bool {
		kind := s.kinds[name]
		if kind.unread != nil || apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
			same := kind.unread != nil && kind.unread.Error() == err.Error()
			kind.unread, kind.objects, kind.broken = err, nil, nil
			return !same
		}
		if kind.broken == nil {
			kind.brokenAt = time.Now()
		}
		kind.broken = err
		return true
	})
}

// noteRefusal tells whoever wants to know it that the API server does not know the user.
func (s *store) noteRefusal(err error) {
	if apierrors.IsUnauthorized(err) && s.refused != nil {
		s.refused()
	}
}

// update changes the store, and wakes those that wait for a change if apply says that there was one.
func (s *store) update(apply func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if apply() {
		s.version++
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// nextChange returns the number of changes so far, and what is closed at the next one.
func (s *store) nextChange() (uint64, <-chan struct{}) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.version, s.changed
}

// listAndWatch reads all objects of a kind and follows them. It returns nil if they have to be read again.
func (s *store) listAndWatch(ctx context.Context, name string) error {
	version, err := s.list(ctx, name)
	for err == nil && ctx.Err() == nil {
		version, err = s.watch(ctx, name, version)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return nil
		}
	}
	return err
}

// list reads all objects of a kind, page by page.
func (s *store) list(ctx context.Context, name string) (version string, err error) {
	read, token := map[client.ObjectKey]client.Object{}, ""
	for {
		list := s.kinds[name].newList()
		asking, cancel := context.WithTimeout(ctx, longestPage)
		err := s.client.List(asking, list, append([]client.ListOption{client.Limit(pageSize), client.Continue(token)}, s.kinds[name].options...)...)
		cancel()
		if err != nil {
			return "", fmt.Errorf("listing them: %w", err)
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			if object, is := item.(client.Object); is {
				object = trimObject(object)
				read[client.ObjectKeyFromObject(object)] = object
			}
			return nil
		})
		if err != nil {
			return "", fmt.Errorf("listing them: %w", err)
		}
		version = list.GetResourceVersion()
		if token = list.GetContinue(); token == "" {
			break
		}
	}
	s.update(func() bool {
		kind := s.kinds[name]
		kind.version++
		kind.objects, kind.unread, kind.broken = read, nil, nil
		return true
	})
	return version, nil
}

// watch follows the objects of a kind from a version, until the watch ends. It returns the version from which to continue.
func (s *store) watch(ctx context.Context, name, version string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, watchTime*time.Second+watchGrace)
	defer cancel()
	options := append([]client.ListOption{&client.ListOptions{Raw: &metav1.ListOptions{
		ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: new(int64(watchTime)),
	}}}, s.kinds[name].options...)
	watching, err := s.client.Watch(ctx, s.kinds[name].newList(), options...)
	if err != nil {
		return version, fmt.Errorf("watching them: %w", err)
	}
	defer watching.Stop()
	started := time.Now()
	for {
		select {
		case <-ctx.Done():
			return version, fmt.Errorf("watching them: the API server has not ended the watch in time: %w", ctx.Err())
		case event, open := <-watching.ResultChan():
			if !open {
				return version, waitUntil(ctx, started.Add(time.Second))
			}
			if event.Type == watch.Error {
				return version, fmt.Errorf("watching them: %w", apierrors.FromObject(event.Object))
			}
			object, is := event.Object.(client.Object)
			if !is {
				continue
			}
			version = object.GetResourceVersion()
			if event.Type != watch.Bookmark {
				s.applyEvent(name, event.Type, trimObject(object))
			}
		}
	}
}

// waitUntil waits for a moment, so that an API server that ends each watch at once is not asked without end.
func waitUntil(ctx context.Context, at time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(at)):
		return nil
	}
}

func (s *store) applyEvent(name string, kind watch.EventType, object client.Object) {
	s.update(func() bool {
		of, key := s.kinds[name], client.ObjectKeyFromObject(object)
		if kind == watch.Deleted {
			delete(of.objects, key)
		} else {
			of.objects[key] = object
		}
		of.version++
		of.broken = nil
		return true
	})
}

// versionOf changes with the objects of kinds.
func (s *store) versionOf(names ...string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	text := ""
	for _, name := range names {
		text += fmt.Sprint(s.kinds[name].version, "/")
	}
	return text
}

// errorOf is why a kind is not known; nil if it is.
func (s *store) errorOf(name string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.kinds[name].unread
}

// objectsOf are the objects of a kind for which keep holds, sorted by namespace and name. They must not be changed.
func objectsOf[T client.Object](s *store, name string, keep func(T) bool) []T {
	s.mu.RLock()
	var found []T
	for _, object := range s.kinds[name].objects {
		if typed, is := object.(T); is && (keep == nil || keep(typed)) {
			found = append(found, typed)
		}
	}
	s.mu.RUnlock()
	slices.SortFunc(found, func(a, b T) int { return compareObjects(a, b) })
	return found
}

// snapshotLists are the lists of all kinds that are known, sorted, and why others are not.
func (s *store) snapshotLists() (lists map[string]client.ObjectList, unread map[string]error, err error) {
	lists, unread = map[string]client.ObjectList{}, map[string]error{}
	for name, kind := range s.kinds {
		if kind.outside {
			continue
		}
		if err := s.errorOf(name); err != nil {
			unread[name] = err
			continue
		}
		list := kind.newList()
		if err := fillList(list, objectsOf[client.Object](s, name, nil)); err != nil {
			return nil, nil, err
		}
		lists[name] = list
	}
	return lists, unread, nil
}

// fillList puts objects into a list of their kind.
func fillList(list client.ObjectList, objects []client.Object) error {
	items := make([]runtime.Object, len(objects))
	for i := range objects {
		items[i] = objects[i]
	}
	if err := meta.SetList(list, items); err != nil {
		return fmt.Errorf("filling a %T: %w", list, err)
	}
	return nil
}

// brokenKinds says of each kind whose changes are not followed since when and why, sorted by kind.
func (s *store) brokenKinds(now time.Time) (lines []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(s.kinds)) {
		if kind := s.kinds[name]; kind.broken != nil {
			lines = append(lines, fmt.Sprintf("Changes of %s are not known since %s: %s", name, ageText(now, kind.brokenAt), cmdutil.Printable(kind.broken.Error())))
		}
	}
	return lines
}
