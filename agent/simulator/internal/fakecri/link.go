package fakecri

import (
	"context"
	"math"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// link is a node's way to the registry, which all of its pulls share evenly.
type link struct {
	clock clock.Clock
	// bytesPerSecond is more than 0.
	bytesPerSecond float64

	mu sync.Mutex
	// pulls is how many there are. Each of them has got the bytes by which served has grown since it started.
	pulls   int
	served  float64
	asOf    time.Time
	changed chan struct{}
}

func newLink(bytesPerSecond int64, clock clock.Clock) *link {
	return &link{clock: clock, bytesPerSecond: float64(bytesPerSecond), asOf: clock.Now(), changed: make(chan struct{})}
}

// transferBytes returns when so many bytes have come, or with the error of ctx.
func (l *link) transferBytes(ctx context.Context, size uint64) error {
	target := l.changePulls(1) + float64(size)
	defer l.changePulls(-1)
	for {
		wait, changed := l.remainingTime(target)
		if wait <= 0 {
			return nil
		}
		timer := l.clock.NewTimer(wait)
		select {
		case <-timer.C():
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

// changePulls changes the number of pulls and returns how many bytes each has got.
func (l *link) changePulls(change int) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countReceived()
	l.pulls += change
	close(l.changed)
	l.changed = make(chan struct{})
	return l.served
}

// remainingTime is how long it takes until each pull has got so many bytes, if no other one comes or goes.
func (l *link) remainingTime(target float64) (time.Duration, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countReceived()
	seconds := (target - l.served) * float64(l.pulls) / l.bytesPerSecond
	return time.Duration(math.Ceil(seconds * float64(time.Second))), l.changed
}

// countReceived counts what has come since it was last called. The caller holds the lock.
func (l *link) countReceived() {
	now := l.clock.Now()
	if l.pulls > 0 {
		l.served += now.Sub(l.asOf).Seconds() * l.bytesPerSecond / float64(l.pulls)
	}
	l.asOf = now
}
