package reconciler

import "sync"

// Locks are one mutex for each key, kept only while it is wanted: keys never wait for each other, as they would for one of a fixed
// number of mutexes. The zero value is ready for use.
type Locks[K comparable] struct {
	mu  sync.Mutex
	all map[K]*keyLock
}

type keyLock struct {
	sync.Mutex
	wanted int
}

// Lock waits for the mutex of key, and returns what unlocks it.
func (l *Locks[K]) Lock(key K) (unlock func()) {
	l.mu.Lock()
	if l.all == nil {
		l.all = map[K]*keyLock{}
	}
	one := l.all[key]
	if one == nil {
		one = &keyLock{}
		l.all[key] = one
	}
	one.wanted++
	l.mu.Unlock()
	one.Lock()
	return func() {
		one.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.wanted--; one.wanted == 0 {
			delete(l.all, key)
		}
	}
}
