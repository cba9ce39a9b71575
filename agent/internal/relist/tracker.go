package relist

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Tracker notices a cache that is behind what the API server itself has told. It keeps which version of the objects of one
// kind the API server told last, in the answer to a read or a write, until the cache has come as far. The zero Tracker is
// ready to use, by several goroutines.
//
// What is missing in a cache is asked of the API server. The answer can be far ahead of the cache: after an API server
// was away, client-go waits up to a minute until it watches again. Then the cache goes through everything that has
// happened meanwhile, in order, and shows an object as it was long before. By such an object, a Machine that has been Ready
// would be reported as not ready yet.
type Tracker struct {
	mu   sync.Mutex
	told map[client.ObjectKey]string
}

// Observed remembers the version of an object that the API server has just told. An older one than before replaces that
// too: the API server has gone back to an older state.
func (t *Tracker) Observed(object client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told == nil {
		t.told = map[client.ObjectKey]string{}
	}
	t.told[client.ObjectKeyFromObject(object)] = object.GetResourceVersion()
}

// Forget removes an object that no caller asks for again. One that is merely gone is kept: the cache may still go
// through its past.
func (t *Tracker) Forget(key client.ObjectKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.told, key)
}

// Behind reports whether an object from the cache is older than what the API server told last of its name: then the API
// server has to be asked again. Versions are compared also between two objects of one name, of which one came after
// the other. A version that is not a number is never behind.
func (t *Tracker) Behind(cached client.Object) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := client.ObjectKeyFromObject(cached)
	told, ok := t.told[key]
	if !ok {
		return false
	}
	if order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), told); err == nil && order < 0 {
		return true
	}
	delete(t.told, key)
	return false
}
