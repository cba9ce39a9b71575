package freeze

import (
	"time"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Between the end of the last cause of a freeze and the thaw the world is listed anew: what the agent knows may be
// From before the freeze. The causes are numbered, so that a list from before the last one does not count.

// relist keeps the freeze up until the world was listed since its last cause.
func (m *Monitor) relist(state *State) {
	if !m.options.Relist {
		return
	}
	if state.Frozen {
		if !m.caused {
			m.freezes++
		}
		m.caused, m.listed, m.listing = true, false, ""
		return
	}
	m.caused = false
	if m.listed {
		return
	}
	why := Blocker{Reason: v1alpha1.ReasonRelisting, Message: "the agent compares its caches with the API servers before it acts, which takes a few seconds", Since: m.downtime.open}
	if m.listing != "" {
		why.Message = m.listing
	}
	state.Bars = append(state.Bars, why)
	state.Frozen, state.Reason, state.Message, state.Since = true, why.Reason, why.Message, why.Since
}

// Relist tells whether it is time to list the world, because nothing else keeps the agent frozen, and the number
// of the freeze for which that is.
func (m *Monitor) Relist() (freeze uint64, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state(m.options.Clock.Now())
	return m.freezes, m.options.Relist && !m.caused && !m.listed
}

// Relisting says how far the list for a freeze is.
func (m *Monitor) Relisting(freeze uint64, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.freezes == freeze {
		m.listing = message
	}
}

// Relisted thaws the agent, if the freeze for which the world was listed is still the last one and nothing else has
// come up.
func (m *Monitor) Relisted(freeze uint64) {
	m.mu.Lock()
	now := m.options.Clock.Now()
	m.state(now)
	if m.freezes == freeze {
		// A cause that has come up takes it back.
		m.listed = true
		m.state(now)
	}
	m.mu.Unlock()
	m.Look()
}

// Thaw returns how often the agent has thawed, and when it last did; it may be frozen again.
func (m *Monitor) Thaw() (number uint64, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state(m.options.Clock.Now())
	return m.downtime.thaw()
}
