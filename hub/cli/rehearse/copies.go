package rehearse

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// copyOf is a copy of the objects of a kind, kept up to date by a watch that is made again when it ends.
type copyOf[T client.Object] struct {
	store     cache.Store
	reflector *cache.Reflector
}

// follow keeps a copy until ctx ends, and calls changed after each change of it.
func follow[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, example T, changed func(), chosen ...client.ListOption) *copyOf[T] {
	only := func(options metav1.ListOptions) *client.ListOptions {
		return (&client.ListOptions{Raw: &options}).ApplyOptions(chosen)
	}
	source := &cache.ListWatch{
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
	store := &tellingStore{cache.NewStore(cache.MetaNamespaceKeyFunc), changed}
	one := &copyOf[T]{store, cache.NewReflectorWithOptions(source, example, store, cache.ReflectorOptions{})}
	go one.reflector.RunWithContext(ctx)
	return one
}

// isComplete reports whether all objects have been read once.
func (c *copyOf[T]) isComplete() bool { return c.reflector.LastSyncResourceVersion() != "" }

func (c *copyOf[T]) listObjects() (all []T) {
	for _, object := range c.store.List() {
		if typed, ok := object.(T); ok {
			all = append(all, typed)
		}
	}
	return all
}

// tellingStore tells of each change.
type tellingStore struct {
	cache.Store
	changed func()
}

func (s *tellingStore) Add(object any) error    { return s.tellChange(s.Store.Add(object)) }
func (s *tellingStore) Update(object any) error { return s.tellChange(s.Store.Update(object)) }
func (s *tellingStore) Delete(object any) error { return s.tellChange(s.Store.Delete(object)) }

func (s *tellingStore) Replace(objects []any, version string) error {
	return s.tellChange(s.Store.Replace(objects, version))
}

func (s *tellingStore) tellChange(err error) error {
	if err == nil {
		s.changed()
	}
	return err
}
