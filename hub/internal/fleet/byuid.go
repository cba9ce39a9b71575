package fleet

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// byUID remembers a value for each object in this process. The zero value is ready for use, by several goroutines.
type byUID[T any] struct {
	mu  sync.Mutex
	all map[types.UID]T
}

// valueOf returns what is remembered of an object; the zero value if nothing is.
func (b *byUID[T]) valueOf(uid types.UID) (value T, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	value, known = b.all[uid]
	return value, known
}

func (b *byUID[T]) setValue(uid types.UID, value T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[types.UID]T{}
	}
	b.all[uid] = value
}

// keepOnly forgets all other objects.
func (b *byUID[T]) keepOnly(uids map[types.UID]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid := range b.all {
		if !uids[uid] {
			delete(b.all, uid)
		}
	}
}
