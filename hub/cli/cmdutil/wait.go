package cmdutil

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Until watches the object of that key until done says so. A lost connection is made again. A watch may start with old states: done does
// not see those older than known, which may be empty, or than the one that was listed. The error of an object that goes away, or was never
// there, has the exit code Missing.
func Until[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, key client.ObjectKey, known T, done func(T) (bool, error)) error {
	from := known.GetResourceVersion() // Empty as soon as the watch has got so far: a hub that is restored goes back.
	check := func(object any, next func(T) string) (bool, error) {
		typed, ok := object.(T)
		if !ok {
			return false, fmt.Errorf("watching: got a %T", object)
		}
		if order, err := resourceversion.CompareResourceVersion(typed.GetResourceVersion(), from); err == nil && order < 0 {
			return false, nil
		}
		from = next(typed)
		return done(typed)
	}
	_, err := watchtools.UntilWithSync(ctx, listWatch(c, list, key), known, func(store cache.Store) (bool, error) {
		for _, object := range store.List() {
			return check(object, T.GetResourceVersion)
		}
		return false, missingError(key)
	}, func(event watch.Event) (bool, error) {
		if event.Type == watch.Deleted {
			return false, missingError(key)
		}
		return check(event.Object, func(T) string { return "" })
	})
	return inTime(ctx, err)
}

// UntilGone watches the object of that key until it does not exist.
func UntilGone[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, key client.ObjectKey, example T) error {
	_, err := watchtools.UntilWithSync(ctx, listWatch(c, list, key), example, func(store cache.Store) (bool, error) {
		return len(store.List()) == 0, nil
	}, func(event watch.Event) (bool, error) { return event.Type == watch.Deleted, nil })
	return inTime(ctx, err)
}

func missingError(key client.ObjectKey) error {
	return NotFound("%s does not exist (any more)", key.Name)
}

// Within gives wait a context that ends after timeout. If that is what has ended wait, the error is that of late.
func Within(ctx context.Context, timeout time.Duration, wait func(context.Context) error, late func() error) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := wait(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return late()
	}
	return err
}

// inTime names the end of ctx for what it is; the library has errors of its own for it.
func inTime(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func listWatch(c client.WithWatch, list client.ObjectList, key client.ObjectKey) *cache.ListWatch {
	return listWatchChosen(c, list, client.InNamespace(key.Namespace), client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", key.Name)})
}

func listWatchChosen(c client.WithWatch, list client.ObjectList, chosen ...client.ListOption) *cache.ListWatch {
	only := func(options metav1.ListOptions) *client.ListOptions {
		return (&client.ListOptions{Raw: &options}).ApplyOptions(chosen)
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			found, ok := list.DeepCopyObject().(client.ObjectList)
			if !ok {
				return nil, fmt.Errorf("watching: %T is not a list", list)
			}
			return found, c.List(ctx, found, only(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, list, only(options))
		},
	}
}

// Each calls seen with the objects of that key, of all namespaces if key has none, and with each of them again when it
// changes, until ctx is done. A lost connection is made again.
func Each[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, key client.ObjectKey, example T, seen func(T)) error {
	_, err := watchtools.UntilWithSync(ctx, listWatch(c, list, key), example, func(store cache.Store) (bool, error) {
		for _, object := range store.List() {
			if typed, ok := object.(T); ok {
				seen(typed)
			}
		}
		return false, nil
	}, func(event watch.Event) (bool, error) {
		if typed, ok := event.Object.(T); ok && event.Type != watch.Deleted {
			seen(typed)
		}
		return false, nil
	})
	return inTime(ctx, err)
}

// UntilAll watches the objects that options choose, until done says so of all that there are. A lost connection is made again.
func UntilAll[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, example T, done func([]T) (bool, error), options ...client.ListOption) error {
	there := map[types.UID]T{}
	_, err := watchtools.UntilWithSync(ctx, listWatchChosen(c, list, options...), example, func(store cache.Store) (bool, error) {
		for _, object := range store.List() {
			if typed, ok := object.(T); ok {
				there[typed.GetUID()] = typed
			}
		}
		return done(slices.Collect(maps.Values(there)))
	}, func(event watch.Event) (bool, error) {
		typed, ok := event.Object.(T)
		if !ok {
			return false, fmt.Errorf("watching: got a %T", event.Object)
		}
		if there[typed.GetUID()] = typed; event.Type == watch.Deleted {
			delete(there, typed.GetUID())
		}
		return done(slices.Collect(maps.Values(there)))
	})
	return inTime(ctx, err)
}
