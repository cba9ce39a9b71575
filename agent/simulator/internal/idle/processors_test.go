package idle

import (
	"testing"
	"time"
)

// Claim: A pack uses a second processor only while it has work for it. Broken: a resting pack uses two; a busy one waits with the second; it changes at each look.
func TestAPackUsesASecondProcessorWhileItIsBusy(t *testing.T) {
	l := load{processors: 2}
	var used time.Duration
	expect := func(looks int, share float64, want int) {
		t.Helper()
		for range looks {
			used += time.Duration(share * float64(lookPeriod))
			l.chooseProcessors(used, lookPeriod, 2)
		}
		if l.processors != want {
			t.Errorf("after %d looks with %.1f of a processor: %d processors, want %d", looks, share, l.processors, want)
		}
	}
	expect(quietLooks-1, 0.01, 2)
	expect(1, 0.01, 1)
	expect(100, 0.6, 1)
	expect(1, 0.9, 2) // At once.
	expect(100, 0.5, 2)
	expect(quietLooks-1, 0.1, 2)
	expect(1, 0.5, 2)
	expect(quietLooks-1, 0.1, 2)
	expect(1, 0.1, 1)
}
