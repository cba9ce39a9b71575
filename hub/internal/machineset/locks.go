package machineset

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// locks are one mutex for each deployment, kept only while it is wanted. The zero value is ready for use.
type locks struct {
	mu  sync.Mutex
	all map[types.UID]*lock
}

type lock struct {
	sync.Mutex
	wanted int
}

// lock waits for the mutex of deployment, and returns what unlocks it.
func (l *locks) lock(deployment types.UID) (unlock func()) {
	l.mu.Lock()
	if l.all == nil {
		l.all = map[types.UID]*lock{}
	}
	one := l.all[deployment]
	if one == nil {
		one = &lock{}
		l.all[deployment] = one
	}
	one.wanted++
	l.mu.Unlock()
	one.Lock()
	return func() {
		one.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.wanted--; one.wanted == 0 {
			delete(l.all, deployment)
		}
	}
}
