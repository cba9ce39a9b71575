package plane

import (
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// cachedStorage lets the watch caches of all planes look for watches that want a bookmark at the same moments. There are 60 in a plane,
// and each looks about once a second: at moments of their own, most of the wake-ups of a resting process are theirs.
type cachedStorage struct{ generic.RESTOptionsGetter }

// GetRESTOptions returns what the API server would have, with another clock for the cache if there is one.
func (s cachedStorage) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := s.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err == nil && reflect.ValueOf(options.Decorator).Pointer() != reflect.ValueOf(generic.UndecoratedStorage).Pointer() {
		options.Decorator = newCache
	}
	return options, err
}

// newCache is registry.StorageWithCacher with a clock.
func newCache(
	config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
	newObject, newList func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	raw, destroy, err := generic.NewRawStorage(config, newObject, newList, prefix)
	if err != nil {
		return raw, destroy, err
	}
	cached, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: raw, Versioner: storage.APIObjectVersioner{}, GroupResource: config.GroupResource, ResourcePrefix: prefix,
		EventsHistoryWindow: config.EventsHistoryWindow, KeyFunc: key, NewFunc: newObject, NewListFunc: newList, GetAttrsFunc: attributes,
		IndexerFuncs: triggers, Indexers: indexers, Codec: config.Codec, Clock: commonClock{},
	})
	if err != nil {
		return nil, func() {}, err
	}
	delegator := cacher.NewCacheDelegator(cached, raw)
	return delegator, sync.OnceFunc(func() {
		delegator.Stop()
		cached.Stop()
		destroy()
	}), nil
}

// commonClock is a clock whose timers of about a second all end when a second of the process does.
type commonClock struct{ clock.RealClock }

// NewTimer returns a timer.
func (commonClock) NewTimer(d time.Duration) clock.Timer {
	return commonTimer{clock.RealClock{}.NewTimer(alignWait(time.Since(processStart), d))}
}

type commonTimer struct{ clock.Timer }

// Reset lets the timer end after about the duration.
func (t commonTimer) Reset(d time.Duration) bool {
	return t.Timer.Reset(alignWait(time.Since(processStart), d))
}

// processStart is when a second of the process begins.
var processStart = time.Now()

// alignWait returns how long to wait from now on, the time since the process has started. Waits of other lengths stay as they are.
func alignWait(now, wait time.Duration) time.Duration {
	if wait < time.Second/2 || wait > 3*time.Second/2 {
		return wait
	}
	return max((now+wait).Round(time.Second)-now, time.Second/2)
}
