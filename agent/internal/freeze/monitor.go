// Package freeze keeps the agent from acting on a world that it cannot see.
//
// A Monitor probes the API servers that the agent works with. It is frozen from its start until each of them
// has answered a number of times in a row, and again when one has not answered for a while. A Gate stands in
// front of everything that changes something: while the Monitor is frozen it refuses with *Error.
//
//	probeEndpoint -> Observe -> endpoint: thawed, or frozen since      endpoint.go, one API server, pure
//	endpoints, Blockers, order, relist -> State: frozen, and why       state.go, one agent
//	State -> Gate: refuses changes                                     gate.go
//	State -> Subscribe -> clusterstatus.Reporter -> Cluster on the hub
//
// The first cause explains a freeze: an API server (hub, target, host), a Blocker, a person's order, the relist.
// The Lease of the cluster is a Blocker: clusterstatus.LeaseHolder.
//
// Whether the agent is frozen is computed from the time of the last good answer at the moment of asking: a process
// that was stopped for a minute is frozen when it continues, before its first act.
package freeze

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
)

// Scope names an API server that the agent works with.
type Scope string

// The scopes, in the order in which they explain a freeze.
const (
	Hub    Scope = "hub"
	Target Scope = "target"
	Host   Scope = "host"
)

var scopes = []Scope{Hub, Target, Host}

// Probe makes one real request with the agent's own credentials. It returns when ctx ends.
type Probe func(ctx context.Context) error

// Options of a Monitor.
type Options struct {
	// Probes by scope; those of hub and target are required.
	Probes map[Scope]Probe
	Policy Policy
	// Ordered reports whether a person has ordered a freeze of this cluster, and the reason given. Optional.
	Ordered func() (reason string, ordered bool)
	// Blockers tell why this agent may not act however well the world is, such as because it stands by for another
	// agent of its cluster. The first that holds explains a freeze. Optional.
	Blockers []BlockerFunc
	// Relist: once nothing else keeps the agent frozen, it stays so until CompleteRelist.
	Relist  bool
	Pace    Pace
	Metrics *Metrics
	poll.Runtime
}

// Pace is how often API servers are probed.
type Pace struct {
	// Interval between probes of an API server that answers. FastInterval is that of one that is frozen or
	// does not answer, so that a thaw comes soon. Timeout bounds one probe.
	Interval, FastInterval, Timeout time.Duration
}

// PaceFor lets three probes of a healthy API server fall into the time after which it freezes. Once one fails, more follow: four within
// the rest of that time of an API server that does not answer, and about twenty of one that refuses.
func PaceFor(freezeAfter time.Duration) Pace {
	interval := freezeAfter / 3
	return Pace{Interval: interval, FastInterval: min(time.Second, interval), Timeout: min(5*time.Second, freezeAfter/2)}
}

// Blocker is why an agent may not act: a reason of package v1alpha1, a message, and since when.
type Blocker struct {
	Reason  string    `json:"reason"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// BlockerFunc returns the Blocker that applies now, if one does. It must not ask the Monitor anything.
type BlockerFunc func() (why Blocker, blocked bool)

// Monitor knows whether the agent is frozen.
type Monitor struct {
	options Options

	mu          sync.Mutex
	endpoints   map[Scope]*endpoint
	subscribers []chan struct{}
	// orderedSince is when the order of a person to freeze was first seen; zero without one.
	orderedSince time.Time
	downtime     downtime
	// caused is true while something other than the relist keeps the agent frozen. listed is true once the relist for the
	// last freeze is done, and listing says how far it is. freezes counts how often caused became true.
	caused, listed bool
	listing        string
	freezes        uint64
	// notifiedFreezes is the number of freezes at the last look.
	notifiedFreezes uint64
	// announced is the state that the log and the subscribers were last told.
	announced State
	observed  chan struct{}
}

// NewMonitor returns a Monitor that is frozen. Start makes it probe.
func NewMonitor(options Options) (*Monitor, error) {
	if options.Probes[Hub] == nil || options.Probes[Target] == nil {
		return nil, errors.New("freeze.Options: Probes of Hub and Target are required")
	}
	if options.Policy.After <= 0 || options.Policy.Successes < 1 {
		return nil, fmt.Errorf("freeze.Options: Policy needs After and Successes above 0, got %+v", options.Policy)
	}
	if options.Pace.Interval <= 0 || options.Pace.FastInterval <= 0 || options.Pace.Timeout <= 0 || options.Clock == nil || options.Metrics == nil {
		return nil, errors.New("freeze.Options: Pace, Clock and Metrics are required")
	}
	m := &Monitor{options: options, endpoints: map[Scope]*endpoint{}, observed: make(chan struct{}, 1), downtime: newDowntime(options.Clock.Now())}
	for scope := range options.Probes {
		state := newEndpoint(options.Policy, options.Clock.Now())
		m.endpoints[scope] = &state
		options.Metrics.presetProbes(scope)
	}
	m.announced = m.Refresh()
	options.Metrics.showState(m.announced, options.Clock.Now())
	return m, nil
}

// Start probes until ctx ends.
func (m *Monitor) Start(ctx context.Context) error {
	m.options.Log.Info("Starting frozen until every API server has answered", "successes", m.options.Policy.Successes,
		"freezeAfter", m.options.Policy.After, "probes", slices.Sorted(maps.Keys(m.options.Probes)))
	var group sync.WaitGroup
	for scope, probe := range m.options.Probes {
		group.Go(func() { m.probeEndpoint(ctx, scope, probe) })
	}
	// It tells log, metrics and subscribers of changes, also of a freeze that comes by time alone.
	announce := poll.Loop{
		Do:   func(context.Context) error { m.notifySubscribers(); return nil },
		Next: func(context.Context) time.Duration { return m.untilDeadline() }, Wake: m.observed, Runtime: m.options.Runtime,
	}
	err := announce.Run(ctx)
	group.Wait()
	return err
}

func (m *Monitor) probeEndpoint(ctx context.Context, scope Scope, probe Probe) {
	for ctx.Err() == nil {
		started := m.options.Clock.Now()
		attempt, cancel := context.WithTimeout(ctx, m.options.Pace.Timeout)
		err := probe(attempt)
		cancel()
		if ctx.Err() != nil {
			return
		}
		next := m.Observe(scope, err)
		select {
		case <-ctx.Done():
		case <-m.options.Clock.After(next - min(next, m.options.Clock.Since(started))):
		}
	}
}

// Observe takes in the result of a probe, and returns the time from its start to the start of the next.
func (m *Monitor) Observe(scope Scope, err error) time.Duration {
	outcome, message := Classify(err), ""
	if err != nil {
		message = err.Error()
	}
	now := m.options.Clock.Now()
	m.mu.Lock()
	m.refreshAt(now)
	state := m.endpoints[scope]
	before := state.lastOutcome
	state.observeProbe(outcome, message, now)
	m.refreshAt(now)
	thawed := state.thawed
	m.mu.Unlock()

	m.options.Metrics.countProbe(scope, outcome)
	if outcome != before {
		m.options.Log.Info("Probing an API server", "scope", scope, "outcome", outcome, "message", message)
	}
	m.Notify()
	if outcome == OK && thawed {
		return m.options.Pace.Interval
	}
	return m.options.Pace.FastInterval
}

// Notify makes the monitor tell of a change that no probe brings, such as that a Blocker no longer applies.
func (m *Monitor) Notify() {
	select {
	case m.observed <- struct{}{}:
	default:
	}
}

// Subscribe returns a channel that receives after every change between frozen and thawed, or of the reason.
func (m *Monitor) Subscribe() <-chan struct{} {
	subscriber := make(chan struct{}, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subscribers = append(m.subscribers, subscriber)
	return subscriber
}

func (m *Monitor) untilDeadline() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	wait := m.options.Policy.After
	now := m.options.Clock.Now()
	for _, state := range m.endpoints {
		if at, ok := state.freezeDeadline(); ok {
			wait = min(wait, max(at.Sub(now), 0))
		}
	}
	return wait
}

func (m *Monitor) notifySubscribers() {
	m.mu.Lock()
	now := m.options.Clock.Now()
	state := m.refreshAt(now)
	before := m.announced
	// A freeze that comes and goes between two looks is news for who lists the world after it.
	changed := before.Frozen != state.Frozen || before.Reason != state.Reason || m.notifiedFreezes != m.freezes
	m.announced, m.notifiedFreezes = state, m.freezes
	frozenFor := m.downtime.lastFreeze()
	subscribers := slices.Clone(m.subscribers)
	m.mu.Unlock()
	m.options.Metrics.showState(state, now)
	if !changed {
		return
	}
	if state.Frozen {
		m.options.Log.Info("Freezing: nothing is created, changed or deleted", "reason", state.Reason, "message", state.Message)
	} else {
		m.options.Log.Info("Unfreezing: every API server has proven healthy and no freeze is ordered", "frozenFor", frozenFor.Round(time.Second))
	}
	for _, subscriber := range subscribers {
		select {
		case subscriber <- struct{}{}:
		default:
		}
	}
}
