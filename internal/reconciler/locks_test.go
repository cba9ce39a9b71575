package reconciler

import (
	"sync"
	"testing"

	. "github.com/onsi/gomega"
)

func TestLocksOfOneKeyExcludeEachOther(t *testing.T) {
	g := NewWithT(t)
	var locks Locks[string]
	var workers sync.WaitGroup
	count := map[string]int{}
	unlockOther := locks.Lock("other") // Nobody with another key waits for it.
	for range 8 {
		workers.Go(func() {
			for range 1000 {
				unlock := locks.Lock("one")
				before := count["one"]
				count["one"] = before + 1
				unlock()
			}
		})
	}
	workers.Wait()
	unlockOther()
	g.Expect(count["one"]).To(Equal(8000))
	g.Expect(locks.all).To(BeEmpty(), "nothing is kept of locks that are free")
}
