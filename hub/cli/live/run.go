package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

const (
	// shortestPause is the time between two drawings of a screen at least, and shortestPrint that between two prints: what happens meanwhile is
	// in the second.
	shortestPause, shortestPrint = 200 * time.Millisecond, time.Second
	// pauseShare is how many times longer than a drawing the pause after it is: a large fleet takes no more of a processor.
	pauseShare = 4
	// screenTick is how often ages on a screen are counted again, and lookTick how often is looked elsewhere whether time has changed a state.
	screenTick, lookTick = time.Second, 5 * time.Second
)

// View is what is shown.
type View interface {
	// Update takes in what is known now.
	Update(known map[string]Snapshot, pulse Pulse, now time.Time) error
	// Lines are for a screen of that size.
	Lines(width, height int) []Line
	// Key is what is shown without what only time changes: if it is the same, nothing new is printed where there is no screen.
	Key() string
	// Print prints all, where there is no screen.
	Print(now time.Time) error
	// Done reports that nothing will change any more.
	Done() bool
}

// Options are how a View is followed.
type Options struct {
	// First is how long the first answer may take; 0 has no bound.
	First time.Duration
	// Timeout is how long to follow; 0 has no bound.
	Timeout time.Duration
	// Printed has the view printed where there could be a screen: for a format that programs read.
	Printed bool
}

// ErrNoAnswer is what ends Follow when First is over.
var ErrNoAnswer = errors.New("the hub's API server has not answered")

// ErrTimeout is what ends Follow when Timeout is over.
var ErrTimeout = errors.New("the time is over")

// Follow shows view until it is done, ctx ends, or the timeout is over. The last state stays on the screen.
func Follow(ctx context.Context, hub *cmdutil.Hub, c client.WithWatch, kinds []Kind, view View, options Options) error {
	following, stop := context.WithCancel(ctx)
	store := NewStore(c, kinds)
	heart := &pulse{client: c}
	defer stop()
	// Nobody waits for their end: the first request of a client asks for the kinds of the API server, which no context ends.
	go store.Run(following)
	go heart.follow(following, store.wake, store.retry)
	f := &follower{hub: hub, view: view, store: store, pulse: heart}
	if !options.Printed {
		f.screen = newScreen(hub)
	}
	if err := f.awaitFirst(ctx, options.First); err != nil {
		return err
	}
	if options.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, options.Timeout, ErrTimeout)
		defer cancel()
		ctx = limited
	}
	return f.run(ctx)
}

// follower shows a view.
type follower struct {
	hub    *cmdutil.Hub
	view   View
	store  *Store
	pulse  *pulse
	screen *screen
	// printed is the key of what was printed last, where there is no screen.
	printed string
	begun   bool
}

// awaitFirst returns when all kinds and the hub have answered, whatever they say.
func (f *follower) awaitFirst(ctx context.Context, longest time.Duration) error {
	if longest > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("%w within %s", ErrNoAnswer, longest))
		defer cancel()
		ctx = limited
	}
	for {
		pulse := f.pulse.get()
		switch {
		case pulse.Answered.IsZero() && pulse.Lost != nil && !errors.Is(pulse.Lost, errSlow):
			return pulse.Lost // As any other command ends that finds no hub.
		case f.store.Answered() && !pulse.Answered.IsZero():
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.store.Changed():
		}
	}
}

// run shows what changes.
func (f *follower) run(ctx context.Context) error {
	tick, least, resized := lookTick, shortestPrint, (<-chan os.Signal)(nil)
	if f.screen != nil {
		tick, least, resized = screenTick, shortestPause, notifyResized(ctx)
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		started := time.Now()
		if done, err := f.show(started); done || err != nil {
			return err
		}
		pause := time.NewTimer(max(least, pauseShare*time.Since(started)))
		select {
		case <-ctx.Done():
		case <-pause.C:
			select {
			case <-ctx.Done():
			case <-f.store.Changed():
			case <-ticker.C:
			case <-resized:
			}
		case <-resized:
			pause.Stop()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// show shows what is known now.
func (f *follower) show(now time.Time) (done bool, err error) {
	if err := f.view.Update(f.store.Snapshots(), f.pulse.get(), now); err != nil {
		return false, err
	}
	if f.screen != nil {
		return f.view.Done(), f.screen.draw(f.view.Lines(f.screen.sizeNow()))
	}
	if key := f.view.Key(); !f.begun || key != f.printed {
		f.begun, f.printed = true, key
		if err := f.view.Print(now); err != nil {
			return false, fmt.Errorf("printing: %w", err)
		}
	}
	return f.view.Done(), nil
}

// durations are what only time changes in a message.
var durations = regexp.MustCompile(`\b(\d+(\.\d+)?(ms|s|m|h|d|y))+\b`)

// WithoutAges returns text with all durations replaced by one word, for View.Key.
func WithoutAges(text string) string { return durations.ReplaceAllString(text, "AGE") }
