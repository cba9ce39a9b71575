package relist

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
)

const (
	// pageSize and pageTimeout bound one request of a list.
	pageSize    = 500
	pageTimeout = 10 * time.Second
)

// Caches knows the informers of the agent's caches, which are made through it. The list of an informer has the
// namespace and the selectors of its watch, so that nothing can be cached that is not listed.
type Caches struct {
	mu        sync.Mutex
	informers []informer
}

// informer caches one kind.
type informer struct {
	what   string
	lister toolscache.ListerWithContext
	shared toolscache.SharedIndexInformer
}

// NewInformer returns what goes into cache.Options.NewInformer of the cache of an API server, such as "hub".
func (c *Caches) NewInformer(server string) func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer {
	return func(watcher toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		shared := toolscache.NewSharedIndexInformer(watcher, object, resync, indexers)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.informers = append(c.informers, informer{
			what: fmt.Sprintf("%s objects of the %s", reflect.TypeOf(object).Elem().Name(), server), lister: toolscache.ToListerWithContext(watcher), shared: shared,
		})
		return shared
	}
}

func (c *Caches) allInformers() []informer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.informers)
}

// listPages reads all pages from the API server. Without a resource version the answer is not older than the request.
func (i informer) listPages(ctx context.Context) (Listing, error) {
	listing := Listing{Objects: map[string]string{}}
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := i.listPage(ctx, options)
		if err != nil {
			return listing, fmt.Errorf("listing %s: %w", i.what, err)
		}
		list, err := meta.ListAccessor(page)
		if err != nil {
			return listing, fmt.Errorf("listing %s: %w", i.what, err)
		}
		err = meta.EachListItem(page, func(object runtime.Object) error {
			key, err := toolscache.MetaNamespaceKeyFunc(object)
			if err == nil {
				listing.Objects[key] = versionOf(object)
			}
			return err
		})
		if err != nil {
			return listing, fmt.Errorf("reading the list of %s: %w", i.what, err)
		}
		listing.Version, options.Continue = list.GetResourceVersion(), list.GetContinue()
		if options.Continue == "" {
			return listing, nil
		}
	}
}

func (i informer) listPage(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return i.lister.ListWithContext(ctx, options)
}

// cachedVersion implements Cache.
func (i informer) cachedVersion(key string) (string, bool) {
	object, there, err := i.shared.GetStore().GetByKey(key)
	if err != nil || !there {
		return "", false
	}
	return versionOf(object), true
}

func versionOf(object any) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return accessor.GetResourceVersion()
}
