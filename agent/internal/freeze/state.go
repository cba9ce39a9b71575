package freeze

import (
	"fmt"
	"time"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// State is what can be told of a Monitor at one instant.
type State struct {
	Frozen bool `json:"frozen"`
	// Reason is one of the reasons of package v1alpha1: NotFrozen, Starting, HubUnreachable, …
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Since is when this freeze started; zero while thawed.
	Since time.Time `json:"since,omitzero"`
	// Ordered: a person wants the freeze, whatever the API servers are like.
	Ordered bool `json:"ordered"`
	// Blockers are those that apply, whether they explain the freeze or not.
	Blockers  []Blocker        `json:"blockers,omitempty"`
	Endpoints []EndpointStatus `json:"endpoints"`
}

// EndpointStatus is what can be told of one API server.
type EndpointStatus struct {
	Scope  Scope `json:"scope"`
	Frozen bool  `json:"frozen"`
	// Reason is Reachable, Starting (it has not been proven healthy since the agent started) or Unreachable (it has
	// not given a good answer for as long as the policy says; this stays so until it is proven healthy).
	Reason      string    `json:"reason"`
	Since       time.Time `json:"since,omitzero"`
	Successes   int       `json:"successes"`
	LastOutcome Outcome   `json:"lastOutcome,omitempty"`
	LastMessage string    `json:"lastMessage,omitempty"`
	LastProbe   time.Time `json:"lastProbe,omitzero"`
	// unproven: it has not been proven healthy since the agent started, however long that is ago.
	unproven bool
}

// State returns the state now, and changes nothing. What it is the first to see counts as a freeze once Check, Refresh, a probe or
// the announcement of changes sees it.
func (m *Monitor) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stateAt(m.options.Clock.Now())
}

// Refresh takes in what holds now, as Check does, and returns it. It is for what others are told: they must not hear of a freeze that
// the agent itself does not count.
func (m *Monitor) Refresh() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refreshAt(m.options.Clock.Now())
}

// refreshAt records the state at now, and returns it.
func (m *Monitor) refreshAt(now time.Time) State {
	state := m.stateAt(now)
	for _, e := range m.endpoints {
		e.advanceTo(now)
	}
	switch {
	case !state.Ordered:
		m.orderedSince = time.Time{}
	case m.orderedSince.IsZero():
		m.orderedSince = now
	}
	m.recordCause(state.Frozen && state.Reason != v1alpha1.ReasonRelisting)
	m.downtime.recordState(state.Frozen, state.Since, now)
	return state
}

// stateAt computes the state at now.
func (m *Monitor) stateAt(now time.Time) State {
	state := State{Reason: v1alpha1.ReasonNotFrozen}
	for _, scope := range scopes {
		if m.endpoints[scope] == nil {
			continue
		}
		e := *m.endpoints[scope]
		e.advanceTo(now)
		status := describeEndpoint(scope, &e)
		state.Endpoints = append(state.Endpoints, status)
		if !status.Frozen {
			continue
		}
		if !state.Frozen {
			state.Frozen, state.Reason, state.Message, state.Since = true, reasonOf(status), messageOf(status), status.Since
		} else {
			state.Message += "; " + messageOf(status)
		}
		if status.Since.Before(state.Since) {
			state.Since = status.Since
		}
	}
	m.addBlocker(&state)
	m.addOrder(&state, now)
	m.addRelist(&state)
	return state
}

// addBlocker adds what keeps this agent from acting. A world that cannot be seen explains a freeze first, except that an
// agent which stands by for another one need not get as far as seeing it, and that one which the hub has shut out
// cannot.
func (m *Monitor) addBlocker(state *State) {
	for _, find := range m.options.Blockers {
		why, blocked := find()
		if !blocked {
			continue
		}
		state.Blockers = append(state.Blockers, why)
		standsBy := why.Reason == v1alpha1.ReasonAnotherAgent && state.Reason == v1alpha1.ReasonStarting
		shutOut := why.Reason == v1alpha1.ReasonDenied && state.Reason == v1alpha1.ReasonHubUnreachable
		switch {
		case !state.Frozen || standsBy || shutOut:
			state.Frozen, state.Reason, state.Message, state.Since = true, why.Reason, why.Message, why.Since
		case awaitsPerson(why.Reason):
			state.Message += "; " + why.Message
		}
	}
}

// awaitsPerson reports whether no API server's recovery ends a Blocker of that reason, but only a person: a client that
// waits for the one has to know of the other.
func awaitsPerson(reason string) bool {
	switch reason {
	case v1alpha1.ReasonHubChanged, v1alpha1.ReasonHubRestored, v1alpha1.ReasonHubEmpty, v1alpha1.ReasonVersionSkew:
		return true
	}
	return false
}

// addOrder adds the freeze that a person has ordered, which explains a freeze last.
func (m *Monitor) addOrder(state *State, now time.Time) {
	if m.options.Ordered == nil {
		return
	}
	reason, ordered := m.options.Ordered()
	if !ordered {
		return
	}
	state.Ordered = true
	if state.Frozen {
		return
	}
	state.Frozen, state.Reason, state.Since = true, v1alpha1.ReasonManualFreeze, m.orderedSince
	if state.Since.IsZero() {
		state.Since = now
	}
	state.Message = fmt.Sprintf("the Cluster's annotation %s says: %s", v1alpha1.FreezeAnnotation, reason)
}

// Answered returns when the API server of a scope last gave a good answer: when the Monitor was made before the first one, and zero
// for a scope that is not probed.
func (m *Monitor) Answered(scope Scope) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.endpoints[scope]; e != nil {
		return e.lastOK
	}
	return time.Time{}
}

// Check returns nil, or *Error while the agent is frozen.
func (m *Monitor) Check() error {
	state := m.Refresh()
	if !state.Frozen {
		return nil
	}
	return &Error{Reason: state.Reason, Message: state.Message, Since: state.Since}
}

func describeEndpoint(scope Scope, e *endpoint) EndpointStatus {
	status := EndpointStatus{
		Scope: scope, Frozen: !e.thawed, Reason: v1alpha1.ReasonReachable, Successes: e.successes,
		LastOutcome: e.lastOutcome, LastMessage: e.lastMessage, LastProbe: e.lastProbe,
	}
	if e.thawed {
		return status
	}
	status.Since = e.frozenSince
	status.Reason, status.unproven = v1alpha1.ReasonUnreachable, !e.everThawed
	if status.unproven && !e.silent {
		status.Reason = v1alpha1.ReasonStarting
	}
	return status
}

// reasonOf is why the agent is frozen: Starting also while an API server has never answered, for then the agent has
// not lost anything. An API server whose answer cannot be decoded is reached, and a person has to repair the object.
func reasonOf(status EndpointStatus) string {
	if status.LastOutcome == Undecodable {
		return v1alpha1.ReasonUndecodable
	}
	if status.unproven {
		return v1alpha1.ReasonStarting
	}
	switch status.Scope {
	case Hub:
		return v1alpha1.ReasonHubUnreachable
	case Host:
		return v1alpha1.ReasonHostUnreachable
	default:
		return v1alpha1.ReasonTargetUnreachable
	}
}

func messageOf(status EndpointStatus) string {
	message := fmt.Sprintf("%s API server: last probe %s", status.Scope, status.LastOutcome)
	if status.LastOutcome == "" {
		message = fmt.Sprintf("%s API server: not probed yet", status.Scope)
	}
	if status.LastOutcome == OK {
		message = fmt.Sprintf("the %s API server answers, and counts as healthy after more answers (%d so far)", status.Scope, status.Successes)
	}
	if status.LastMessage != "" {
		message += " (" + status.LastMessage + ")"
	}
	return message
}

// recordCause takes in whether something other than the relist keeps the agent frozen. The causes are numbered, so that a list from
// before the last one does not count.
func (m *Monitor) recordCause(caused bool) {
	if !m.options.Relist {
		return
	}
	if caused {
		if !m.caused {
			m.freezes++
		}
		m.listed, m.listing = false, ""
	}
	m.caused = caused
}

// addRelist keeps the agent frozen until it has listed everything since the last cause of the freeze: what it knows may be from
// before the freeze.
func (m *Monitor) addRelist(state *State) {
	if !m.options.Relist || state.Frozen || m.listed {
		return
	}
	why := Blocker{Reason: v1alpha1.ReasonRelisting, Message: "the agent is comparing its caches with the API servers, which takes a few seconds", Since: m.downtime.open}
	if m.listing != "" {
		why.Message = m.listing
	}
	state.Blockers = append(state.Blockers, why)
	state.Frozen, state.Reason, state.Message, state.Since = true, why.Reason, why.Message, why.Since
}

// RelistDue reports whether it is time to list the world, because nothing else keeps the agent frozen, and the number
// of the freeze for which that is.
func (m *Monitor) RelistDue() (freeze uint64, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refreshAt(m.options.Clock.Now())
	return m.freezes, m.options.Relist && !m.caused && !m.listed
}

// ReportRelistProgress says how far the list for a freeze is.
func (m *Monitor) ReportRelistProgress(freeze uint64, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.freezes == freeze {
		m.listing = message
	}
}

// CompleteRelist thaws the agent, if the freeze for which the world was listed is still the last one and nothing else has
// come up.
func (m *Monitor) CompleteRelist(freeze uint64) {
	m.mu.Lock()
	now := m.options.Clock.Now()
	m.refreshAt(now)
	if m.freezes == freeze {
		// A cause that has come up takes it back.
		m.listed = true
		m.refreshAt(now)
	}
	m.mu.Unlock()
	m.Notify()
}

// Thaw returns how often the agent has thawed, and when it last did; it may be frozen again.
func (m *Monitor) Thaw() (number uint64, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refreshAt(m.options.Clock.Now())
	return m.downtime.lastThaw()
}
