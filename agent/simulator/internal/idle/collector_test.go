package idle

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

// A process at rest is collected when its heap has grown by a quarter, one with nodes when it has grown by half, and a busy one when it has doubled.
func TestTheHeapGrowsLessWhileLittleIsAllocated(t *testing.T) {
	const live = 600 << 20
	for _, c := range []struct {
		growth    Growth
		allocated float64
		want      int
	}{
		{OfGroup, 0, 25}, {OfGroup, live / 600, 25}, {OfGroup, live / 120, 50}, {OfGroup, live / 60, 50}, {OfGroup, live / 10, 50}, {OfGroup, live / 5.5, 90}, {OfGroup, live, 100},
		{OfComponent, 0, 30}, {OfComponent, live / 60, 30}, {OfComponent, live / 20, 30}, {OfComponent, live / 10, 50}, {OfComponent, live, 100},
	} {
		if got := c.growth.choosePercent(c.allocated, live); got != c.want {
			t.Errorf("%+v, %.0f bytes a second: %d %%, want %d %%", c.growth, c.allocated, got, c.want)
		}
	}
	if got := OfGroup.choosePercent(0, 0); got != busyPercent {
		t.Errorf("nothing is known: %d %%, want %d %%", got, busyPercent)
	}
}

// Claim: The share follows each collection, in both directions. Broken: only the first collection is followed.
func TestTheShareFollowsCollections(t *testing.T) {
	inUse = make([]byte, 32<<20)
	FollowAllocation(OfPack)
	for range 2 {
		expectPercent(t, OfPack.Most, func() { <-time.After(500 * time.Millisecond) })
		expectPercent(t, busyPercent, func() { garbage = make([]byte, 16<<20) })
	}
}

var inUse, garbage []byte

// expectPercent collects after each step until the heap may grow by that share.
func expectPercent(t *testing.T, want int, step func()) {
	t.Helper()
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	for deadline := time.Now().Add(10 * time.Second); ; {
		step()
		runtime.GC()
		metrics.Read(sample)
		if sample[0].Value.Uint64() == uint64(want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the heap may grow by %d %%, want %d %%", sample[0].Value.Uint64(), want)
		}
	}
}
