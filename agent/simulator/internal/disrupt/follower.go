package disrupt

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/rhythm"
)

const (
	// pollPeriod is how often the plan's file is looked at, at the latest.
	pollPeriod = 2 * time.Second
	// idlePeriod is how long a Follower without a file waits for a change for which it was not woken.
	idlePeriod = time.Hour
)

// Options are what a Follower needs.
type Options struct {
	// Node is the name of the node.
	Node string
	// Path is the file with the plan. Empty means that there is none, and never will be.
	Path string
	// Apply brings the node into a state. It is called once at first, and then with each state that differs from the one
	// before, never twice at a time.
	Apply func(State)
	// Die ends the process as if it were killed, or the kubelet for a RestartKubelet.
	Die func(run string, fault plan.FaultType)
	// Clock defaults to the real one. What it says when the Follower is made is when the process started.
	Clock clock.Clock
}

// Follower carries out a plan.
type Follower struct {
	options Options
	started time.Time
	file    file
	wake    chan struct{}

	mu     sync.Mutex
	status Status
	own    []plan.Entry
	// cutoff is when a plan came that cannot be read. The windows that were open then last until their end, and no other one
	// starts.
	cutoff time.Time
	state  State
	// changed is closed when state changes.
	changed chan struct{}
}

// Status is what a Follower knows and does, for people.
type Status struct {
	// Plan is the last one that could be read.
	Plan plan.Plan `json:"plan"`
	// Error is why the file that is there now cannot be read; empty if it can.
	Error string `json:"error,omitempty"`
	// Active are the faults that are there, and Next is when this changes.
	Active []ActiveFault `json:"active"`
	Next   time.Time     `json:"next,omitzero"`
}

// ActiveFault is a fault that is there.
type ActiveFault struct {
	Run   string         `json:"run"`
	UID   string         `json:"uid"`
	Index int32          `json:"index"`
	Type  plan.FaultType `json:"type"`
	Since time.Time      `json:"since"`
	// Until is when it ends, absent if it does not.
	Until time.Time `json:"until,omitzero"`
}

// New returns a Follower that has read the plan and applied it, and does more only while Run is called.
func New(ctx context.Context, options Options) *Follower {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	f := &Follower{
		options: options,
		started: options.Clock.Now(),
		file:    file{path: options.Path},
		wake:    make(chan struct{}, 1),
		changed: make(chan struct{}),
	}
	options.Apply(State{})
	f.takeStep(ctx)
	return f
}

// Run carries the plan out until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	for f.pauseFor(ctx, f.takeStep(ctx)) {
	}
}

// pauseFor waits until it is time for the next step. It returns false when ctx ends.
func (f *Follower) pauseFor(ctx context.Context, wait time.Duration) bool {
	timer := f.options.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-f.wake:
	case <-timer.C():
	}
	return true
}

// SetOwn sets the entry of the node's own configuration.
func (f *Follower) SetOwn(own plan.Entry) {
	f.mu.Lock()
	f.own = []plan.Entry{own}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// AwaitPresence waits until no disruption keeps the node from joining. It returns false if ctx ends before.
func (f *Follower) AwaitPresence(ctx context.Context) bool {
	for {
		f.mu.Lock()
		by, changed := f.state.Absent, f.changed
		f.mu.Unlock()
		if by == "" {
			return ctx.Err() == nil
		}
		klog.FromContext(ctx).Info("Waiting with joining until the end of a disruption", "run", by)
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// Status returns what the Follower knows and does.
func (f *Follower) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	status := f.status
	status.Active = slices.Clone(f.status.Active)
	return status
}

// takeStep does what is to be done now, and returns in how long there is more to do.
func (f *Follower) takeStep(ctx context.Context) time.Duration {
	now := f.options.Clock.Now()
	wait := idlePeriod
	if f.options.Path != "" {
		f.readPlan(ctx, now)
		wait = rhythm.Until(now, pollPeriod)
	}
	active, next := f.activeAt(now)
	f.applyEntries(ctx, f.dieOnce(active), next)
	if !next.IsZero() {
		wait = min(wait, next.Sub(now))
	}
	return wait
}

// readPlan takes over what the file says. With a plan that cannot be read the last one counts for what has started already:
// it orders neither an end nor a beginning.
func (f *Follower) readPlan(ctx context.Context, now time.Time) {
	read, changed, err := f.file.readPlan()
	if !changed {
		return
	}
	logger := klog.FromContext(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		if err.Error() != f.status.Error {
			logger.Error(err, "Reading the plan of disruptions failed: what is active continues until its end, and nothing starts")
			f.status.Error = err.Error()
		}
		if f.cutoff.IsZero() {
			f.cutoff = now
		}
		return
	}
	if len(read.Entries) > 0 || len(f.status.Plan.Entries) > 0 || f.status.Error != "" {
		logger.Info("Following a plan of disruptions", "entries", len(read.Entries))
	}
	f.status.Plan, f.status.Error, f.cutoff = read, "", time.Time{}
}

// activeAt returns the active entries and when they change.
func (f *Follower) activeAt(now time.Time) ([]plan.Active, time.Time) {
	f.mu.Lock()
	entries, cutoff := slices.Concat(f.status.Plan.Entries, f.own), f.cutoff
	f.mu.Unlock()
	active, next := plan.At(entries, f.options.Node, now)
	if cutoff.IsZero() {
		return active, next
	}
	return slices.DeleteFunc(active, func(one plan.Active) bool {
		return one.Entry.UID != plan.OwnRun && one.Window.Start.After(cutoff)
	}), next
}

// dieOnce ends the process for a Kill or a Reboot, or the kubelet for a RestartKubelet, and leaves out those that have had their effect: a process that started
// within a window was started because of it, or is too young for it. A Reboot then is there until its end, and before the end
// of the process it has no other effect.
func (f *Follower) dieOnce(active []plan.Active) []plan.Active {
	return slices.DeleteFunc(active, func(one plan.Active) bool {
		fault := one.Entry.Fault.Type
		if fault != plan.Kill && fault != plan.Reboot && fault != plan.RestartKubelet {
			return false
		}
		if f.started.Before(one.Window.Start) {
			f.options.Die(one.Entry.Run, fault)
			return true
		}
		return fault != plan.Reboot
	})
}

// applyEntries brings the node into the state that the faults make, if it is another one.
func (f *Follower) applyEntries(ctx context.Context, active []plan.Active, next time.Time) {
	state := stateOf(active, f.started)
	f.mu.Lock()
	before := f.state
	f.status.Next, f.status.Active = next, activeFaults(active)
	f.mu.Unlock()
	if reflect.DeepEqual(before, state) {
		return
	}
	klog.FromContext(ctx).Info("Changing the disruptions of the node", "active", activeFaults(active))
	f.options.Apply(state)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = state
	close(f.changed)
	f.changed = make(chan struct{})
}

func activeFaults(active []plan.Active) []ActiveFault {
	var faults []ActiveFault
	for _, one := range active {
		faults = append(faults, ActiveFault{
			Run: one.Entry.Run, UID: one.Entry.UID, Index: one.Entry.Index, Type: one.Entry.Fault.Type,
			Since: one.Window.Start, Until: one.Window.End,
		})
	}
	return faults
}
