package idle

import "testing"

// A process at rest is collected when its heap has grown by a quarter, and a busy one when it has grown by three.
func TestTheHeapGrowsLessWhileLittleIsAllocated(t *testing.T) {
	const live = 600 << 20
	for allocated, want := range map[float64]int{0: leastPercent, live / 600: leastPercent, live / 120: 50, live / 60: mostPercent, live: mostPercent} {
		if got := choosePercent(allocated, live); got != want {
			t.Errorf("%.0f bytes a second: %d %%, want %d %%", allocated, got, want)
		}
	}
	if got := choosePercent(0, 0); got != mostPercent {
		t.Errorf("nothing is known: %d %%, want %d %%", got, mostPercent)
	}
}
