package hollownode

import (
	"testing"
	"testing/synctest"
	"time"
)

// pass lets time pass.
var pass = time.Sleep //nolint:forbidigo // In a synctest bubble it is the fake clock that moves on.

// waited is how long the loop was held back.
func waited(p *pacer) time.Duration {
	before := time.Now()
	p.waitForUse()
	return time.Since(before)
}

func TestPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(5*time.Second, 2*time.Second)
		if got := waited(p); got != 0 {
			t.Errorf("a new pacer held the loop back for %s", got)
		}
		pass(3 * time.Second)
		if got := waited(p); got <= 0 || got > 5*time.Second {
			t.Errorf("idle: want up to the idle time, got %s", got)
		}
		if got := waited(p); got != 5*time.Second {
			t.Errorf("idle: want the idle time after that, got %s", got)
		}
		done := p.useLoops()
		if got := waited(p); got != 0 {
			t.Errorf("in use: held back for %s", got)
		}
		pass(time.Hour)
		if got := waited(p); got != 0 {
			t.Errorf("in use for long: held back for %s", got)
		}
		done()
		if got := waited(p); got != 0 {
			t.Errorf("just used: held back for %s", got)
		}
		pass(2 * time.Second)
		if got := waited(p); got <= 0 || got > 5*time.Second {
			t.Errorf("idle again: want up to the idle time, got %s", got)
		}
	})
}

func TestPacerWakesEveryWaitingLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(100*365*24*time.Hour, 0) // Longer than any wait that follows from when the test runs.
		pass(time.Second)
		ended := make(chan time.Duration, 2)
		for range 2 {
			go func() { ended <- waited(p) }()
		}
		pass(time.Second)
		defer p.useLoops()()
		for range 2 {
			if got := <-ended; got != time.Second {
				t.Errorf("a loop continued after %s, want 1s: when it is needed", got)
			}
		}
	})
}
