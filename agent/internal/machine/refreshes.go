package machine

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// refreshes keeps a hundred Machines that are drained at once from asking the hub the same a hundred times.
type refreshes struct {
	clock clock.PassiveClock
	// turn is held by the one who asks; the others wait for the answer.
	turn chan struct{}
	last time.Time
}

func newRefreshes(clock clock.PassiveClock) *refreshes {
	return &refreshes{clock: clock, turn: make(chan struct{}, 1)}
}

// do calls refresh, unless it has just been answered.
func (r *refreshes) do(ctx context.Context, refresh func(context.Context) error) error {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.turn }()
	now := r.clock.Now()
	if age := now.Sub(r.last); age >= 0 && age < refreshAge {
		return nil
	}
	if err := refresh(ctx); err != nil {
		return err
	}
	r.last = now
	return nil
}
