package rollout

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// ByUID remembers a value for each object in this process. The zero value is ready for use, by several goroutines.
type ByUID[T any] struct {
	mu  sync.Mutex
	all map[types.UID]T
}

// ValueOf returns what is remembered of an object; the zero value if nothing is.
func (b *ByUID[T]) ValueOf(uid types.UID) (value T, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	value, known = b.all[uid]
	return value, known
}

// SetValue remembers a value of an object.
func (b *ByUID[T]) SetValue(uid types.UID, value T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[types.UID]T{}
	}
	b.all[uid] = value
}

// KeepOnly forgets all other objects.
func (b *ByUID[T]) KeepOnly(uids map[types.UID]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid := range b.all {
		if !uids[uid] {
			delete(b.all, uid)
		}
	}
}
