package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// killWait bounds the wait for the end of a process after SIGKILL.
const killWait = 5 * time.Second

// errNotRunning is wrapped when an action needs a run and there is none.
var errNotRunning = errors.New("is not running")

// Start makes the unit run and be restarted when it dies. WaitHealthy then
// counts failed runs again.
func (u *Unit) Start() {
	u.updateUnit(func() { u.wanted, u.failed = true, 0 })
}

// Stop ends the run and keeps the unit down. A paused run is resumed so that
// it can end in order. When the grace time is over, or the context ends, the
// run is killed.
func (u *Unit) Stop(ctx context.Context) error {
	u.updateUnit(func() {
		u.wanted = false
		switch {
		case u.instance != nil:
			u.state = StateStopping
		case u.state == StateWaiting:
			u.state = StateStopped
		}
	})
	ctx, cancel := context.WithTimeout(ctx, u.options.Grace)
	defer cancel()
	if err := u.signalRun(syscall.SIGCONT); err != nil {
		return err
	}
	if err := u.signalRun(syscall.SIGTERM); err != nil {
		return err
	}
	if u.waitGone(ctx) == nil {
		return nil
	}
	if err := u.signalRun(syscall.SIGKILL); err != nil {
		return err
	}
	patience := cmp.Or(u.options.KillWait, killWait)
	killCtx, cancelKill := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancelKill()
	if err := u.waitGone(killCtx); err != nil {
		return fmt.Errorf("stopping %s: it did not end within %s of being killed", u.options.Name, patience)
	}
	return nil
}

// Kill ends the run at once with SIGKILL and returns when it is gone. The unit
// is then restarted like after any other death.
func (u *Unit) Kill(ctx context.Context) error {
	u.mutex.Lock()
	instance := u.instance
	u.mutex.Unlock()
	if instance == nil {
		return fmt.Errorf("killing %s: it %w", u.options.Name, errNotRunning)
	}
	if err := instance.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing %s: %w", u.options.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, max(killWait, u.options.Grace))
	defer cancel()
	if err := u.waitUntil(ctx, func() bool { return u.instance != instance }); err != nil {
		return fmt.Errorf("killing %s: waiting for its end: %w", u.options.Name, err)
	}
	return nil
}

// Pause suspends the run's process.
func (u *Unit) Pause() error {
	return u.suspendRun("pausing", syscall.SIGSTOP, func() { u.state = StatePaused })
}

// Resume lets a paused process continue.
func (u *Unit) Resume() error {
	return u.suspendRun("resuming", syscall.SIGCONT, func() {
		if u.state != StatePaused {
			return
		}
		u.state = StateRunning
		if u.healthyAt.IsZero() {
			u.state = StateStarting
		}
	})
}

func (u *Unit) suspendRun(doing string, signal syscall.Signal, change func()) error {
	var err error
	u.updateUnit(func() {
		if u.instance == nil {
			err = fmt.Errorf("%s %s: it %w", doing, u.options.Name, errNotRunning)
		} else if signalErr := u.instance.Signal(signal); signalErr != nil {
			err = fmt.Errorf("%s %s: %w", doing, u.options.Name, signalErr)
		} else {
			change()
		}
	})
	return err
}

// signalRun signals the run if there is one.
func (u *Unit) signalRun(signal syscall.Signal) error {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if u.instance == nil {
		return nil
	}
	if err := u.instance.Signal(signal); err != nil {
		return fmt.Errorf("stopping %s: %w", u.options.Name, err)
	}
	return nil
}

// waitGone waits until no run is left and none is about to start.
func (u *Unit) waitGone(ctx context.Context) error {
	return u.waitUntil(ctx, func() bool {
		return u.instance == nil && (u.state == StateStopped || u.state == StateWaiting)
	})
}
