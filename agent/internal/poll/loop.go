// Package poll runs what an agent does again and again, and what it waits for.
//
// Four loops of the agent are not on it, because they are of another shape. freeze.Monitor probes at a fixed rate from start to
// start, and drops what a probe says once the agent ends. clusterstatus.Reporter has two deadlines in one loop, and ends with an error
// when it has lost the Lease. relist.Relister waits for an event, not for a time. loadtest's engine follows the schedule of a run.
package poll

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// Loop does something again and again until its context ends. Do, Clock, and one of Every and Next are required.
type Loop struct {
	// Doing names it in the log, such as "Reading for checks". Its errors are not logged if it is empty.
	Doing string
	// Do works once. An error is logged when it is another one than that of the time before, and once when it is over.
	Do func(ctx context.Context) error
	// Timeout bounds one call of Do. Default: none.
	Timeout time.Duration
	// Every is the time between the end of a call of Do and the start of the next.
	Every time.Duration
	// Next, if not nil, returns that time after each call of Do, instead of Every. At 0 and below, Do is called at once. Next may itself
	// wait for something until ctx ends, such as for the event of a watch.
	Next func(ctx context.Context) time.Duration
	// Wake, if not nil, ends the wait when it receives.
	Wake <-chan struct{}
	Runtime
}

// Runtime is what everything that runs for long works with.
type Runtime struct {
	Clock clock.WithTicker
	// Log is for operators. Default: none.
	Log logr.Logger
}

// Run calls Do at once, and then again and again until ctx ends; it then returns nil. The error says that the Loop cannot be run.
func (l Loop) Run(ctx context.Context) error {
	if l.Do == nil || l.Clock == nil || l.Every <= 0 && l.Next == nil {
		return errors.New("poll.Loop: Do, Clock, and one of Every and Next are required")
	}
	if l.Next == nil {
		l.Next = func(context.Context) time.Duration { return l.Every }
	}
	failures := Failures{Log: l.Log}
	for ctx.Err() == nil {
		if err := l.doOnce(ctx); l.Doing != "" && ctx.Err() == nil {
			failures.Note(l.Doing, err)
		}
		if ctx.Err() == nil {
			awaitTime(ctx, l.Clock, l.Next(ctx), l.Wake)
		}
	}
	return nil
}

func (l Loop) doOnce(ctx context.Context) error {
	if l.Timeout <= 0 {
		return l.Do(ctx)
	}
	bounded, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	return l.Do(bounded)
}

// Until calls check at once, and then every time that has passed, until it is done or fails, or ctx ends, whose error is returned then.
func Until(ctx context.Context, by clock.Clock, every time.Duration, check func(ctx context.Context) (done bool, err error)) error {
	for {
		if done, err := check(ctx); done || err != nil {
			return err
		}
		awaitTime(ctx, by, every, nil)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// awaitTime waits for a time, until wake receives, or until ctx ends.
func awaitTime(ctx context.Context, by clock.Clock, wait time.Duration, wake <-chan struct{}) {
	if wait <= 0 {
		return
	}
	timer := by.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C():
	}
}
