package localfleet

import (
	"context"
	"sync"
	"time"

	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

const (
	// A program that ends is started again after firstRestart, then twice as long each time, up to lastRestart,
	// until it has run for steady.
	firstRestart = time.Second
	lastRestart  = 30 * time.Second
	steady       = time.Minute
)

// Keep starts the hub and the agents again whenever they end, until ctx is done. Control planes do that for
// themselves.
func (f *Fleet) Keep(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() {
		f.keep(ctx, func() *process.Process { return f.HubProcess }, f.StartHubProcess)
	})
	for _, member := range f.Members {
		group.Go(func() {
			f.keep(ctx, func() *process.Process { return member.Agent },
				func(ctx context.Context) error { return f.StartAgent(ctx, member) })
		})
	}
	group.Wait()
}

// keep looks after one program.
func (f *Fleet) keep(ctx context.Context, current func() *process.Process, start func(context.Context) error) {
	wait := firstRestart
	for {
		running := current()
		began := time.Now()
		select {
		case <-running.Done():
		case <-ctx.Done():
			return
		}
		if time.Since(began) > steady {
			wait = firstRestart
		}
		f.progress("%s ended; starting it again in %s", running.Name(), wait)
		for restarted := false; !restarted; wait = min(2*wait, lastRestart) {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
			err := start(ctx)
			if restarted = err == nil; !restarted {
				f.progress("starting %s again: %v", running.Name(), err)
			}
		}
	}
}
