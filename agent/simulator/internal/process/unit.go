package process

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// State says what a unit is doing.
type State string

const (
	// StateStopped is a unit that stays down until it is started.
	StateStopped State = "stopped"
	// StateStarting is a unit that runs but has not answered as healthy yet.
	StateStarting State = "starting"
	// StateRunning is a unit that has answered as healthy since its start.
	StateRunning State = "running"
	// StatePaused is a unit whose process is suspended.
	StatePaused State = "paused"
	// StateStopping is a unit that was told to end and has not ended yet.
	StateStopping State = "stopping"
	// StateWaiting is a unit that died and waits for its restart.
	StateWaiting State = "waiting"
)

// healthInterval is the time between two looks at a unit that is starting.
const healthInterval = 100 * time.Millisecond

// failedStarts is how often in a row a unit may end before it was ever healthy
// until WaitHealthy gives up on it.
const failedStarts = 3

// Launch starts one run of a component. The context ends when the unit is given
// up, after its run has been stopped.
type Launch func(ctx context.Context) (Instance, error)

// Options describe a unit. All fields are needed except OnChange.
type Options struct {
	Name   string
	Launch Launch
	// Healthy returns nil when the component does its job.
	Healthy func(ctx context.Context) error
	// OnChange is called after each change of state, without locks held.
	OnChange func()
	// Grace is the time that a run has to end after SIGTERM before SIGKILL.
	Grace time.Duration
	// KillWait is how long a stop waits after SIGKILL, default 5 seconds. What runs as a function takes longer to end than a process.
	KillWait time.Duration
}

// Status is what is known of a unit.
type Status struct {
	State State `json:"state"`
	// PID is 0 when nothing runs.
	PID int `json:"pid,omitempty"`
	// Restarts counts the starts after the first.
	Restarts int `json:"restarts"`
	// LastExit says how the last run ended, empty if none has.
	LastExit string `json:"lastExit,omitempty"`
}

// Unit is a component that is kept running until it is stopped.
type Unit struct {
	options Options

	mutex    sync.Mutex
	changed  chan struct{}
	wanted   bool
	state    State
	instance Instance
	starts   int
	// failed counts the runs since the last healthy one that ended.
	failed    int
	healthyAt time.Time
	lastExit  string
}

// NewUnit makes a unit that is stopped.
func NewUnit(options Options) *Unit {
	return &Unit{options: options, state: StateStopped, changed: make(chan struct{})}
}

// Name is the component's name.
func (u *Unit) Name() string { return u.options.Name }

// Status returns what is known now.
func (u *Unit) Status() Status {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	status := Status{State: u.state, Restarts: max(u.starts-1, 0), LastExit: u.lastExit}
	if u.instance != nil {
		status.PID = u.instance.PID()
	}
	return status
}

// Run starts the unit whenever it is wanted and not running, until the context
// ends. It does not end a run itself: stop the unit before.
func (u *Unit) Run(ctx context.Context) {
	var delays backoff
	for u.waitUntil(ctx, func() bool { return u.wanted }) == nil {
		if !u.claimRun() {
			continue
		}
		delay := delays.nextDelay(u.runOnce(ctx))
		u.updateUnit(func() {
			u.state = StateWaiting
			if !u.wanted {
				u.state = StateStopped
			}
		})
		if u.stoppedWithin(ctx, delay) {
			delays = backoff{}
		}
	}
}

// claimRun decides to start a run. From here on a stop waits for the run's end.
func (u *Unit) claimRun() bool {
	claimed := false
	u.updateUnit(func() {
		if claimed = u.wanted; claimed {
			u.state = StateStarting
		}
	})
	return claimed
}

// stoppedWithin waits for the delay before a restart, and no longer than until the unit is stopped. A caller that starts
// it again need not wait, however soon that is: a start leaves the state as the stop has left it.
func (u *Unit) stoppedWithin(ctx context.Context, delay time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, delay)
	defer cancel()
	return u.waitUntil(ctx, func() bool { return u.state == StateStopped }) == nil
}

// runOnce runs the component once and tells for how long it was healthy.
func (u *Unit) runOnce(ctx context.Context) time.Duration {
	instance, err := u.options.Launch(ctx)
	if err != nil {
		u.updateUnit(func() { u.starts++; u.failed++; u.lastExit = err.Error() })
		return 0
	}
	u.updateUnit(func() {
		u.starts++
		u.instance = instance
		if !u.wanted {
			// The stop came before there was anything to signal.
			u.state = StateStopping
			_ = instance.Signal(syscall.SIGTERM)
		}
	})
	healthCtx, cancel := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { u.watchHealth(healthCtx) })
	exit := instance.Wait()
	ended := time.Now()
	cancel()
	watcher.Wait()
	var healthyFor time.Duration
	u.updateUnit(func() {
		u.instance = nil
		u.lastExit = describeExit(exit, ended)
		if u.healthyAt.IsZero() {
			u.failed++
		} else {
			healthyFor = ended.Sub(u.healthyAt)
		}
		u.healthyAt = time.Time{}
	})
	return healthyFor
}

func describeExit(err error, at time.Time) string {
	reason := "exit status 0"
	if err != nil {
		reason = err.Error()
	}
	return fmt.Sprintf("%s at %s", reason, at.UTC().Format(time.RFC3339))
}

// watchHealth looks at a starting run until it is healthy.
func (u *Unit) watchHealth(ctx context.Context) {
	ticker := time.NewTicker(healthInterval)
	defer ticker.Stop()
	for {
		if u.options.Healthy(ctx) == nil && ctx.Err() == nil {
			u.updateUnit(func() {
				u.healthyAt, u.failed = time.Now(), 0
				if u.state == StateStarting {
					u.state = StateRunning
				}
			})
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// WaitHealthy waits until the current run has answered as healthy. It gives
// up when the unit is stopped or keeps ending without having been healthy.
func (u *Unit) WaitHealthy(ctx context.Context) error {
	var failure error
	err := u.waitUntil(ctx, func() bool {
		switch {
		case !u.wanted:
			failure = fmt.Errorf("%s was stopped", u.options.Name)
		case u.failed >= failedStarts:
			failure = fmt.Errorf("%s ended %d times without becoming healthy, last with %s", u.options.Name, u.failed, u.lastExit)
		}
		return failure != nil || !u.healthyAt.IsZero()
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to be healthy: %w", u.options.Name, err)
	}
	return failure
}

// updateUnit changes the unit under its lock and wakes all that wait.
func (u *Unit) updateUnit(change func()) {
	u.mutex.Lock()
	change()
	close(u.changed)
	u.changed = make(chan struct{})
	u.mutex.Unlock()
	if u.options.OnChange != nil {
		u.options.OnChange()
	}
}

// waitUntil blocks until the condition holds, which is read under the lock.
func (u *Unit) waitUntil(ctx context.Context, condition func() bool) error {
	for {
		u.mutex.Lock()
		met, changed := condition(), u.changed
		u.mutex.Unlock()
		if met {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
