package freeze

import "time"

// Policy says when to freeze and when to thaw.
type Policy struct {
	// After is how long an API server may go without a good answer.
	After time.Duration
	// Successes is how many good answers in a row thaw.
	Successes int
}

// endpoint is the state of one API server. It is pure: the time is always given.
type endpoint struct {
	policy Policy

	thawed      bool
	everThawed  bool
	frozenSince time.Time
	// lastOK is the time of the last good answer, or of the start before the first one.
	lastOK time.Time
	// silent: without a good answer for as long as the policy says, since the last thaw or the start.
	silent bool
	// successes in a row, while frozen.
	successes int

	lastOutcome Outcome
	lastMessage string
	lastProbe   time.Time
}

func newEndpoint(policy Policy, now time.Time) endpoint {
	return endpoint{policy: policy, frozenSince: now, lastOK: now}
}

// advance freezes if the last good answer is too old at the time now.
func (e *endpoint) advance(now time.Time) {
	if Passed(e.lastOK, now) < e.policy.After {
		return
	}
	e.silent = true
	if e.thawed {
		e.thawed, e.successes = false, 0
		e.frozenSince = e.lastOK.Add(e.policy.After)
	}
}

// Passed is the time from a to b by whichever clock tells more: the monotonic one stands still while the machine is
// suspended, and the wall clock may be set back.
func Passed(a, b time.Time) time.Duration { return max(b.Sub(a), b.Round(0).Sub(a.Round(0))) }

// observe takes in the result of a probe that ended at now.
func (e *endpoint) observe(outcome Outcome, message string, now time.Time) {
	e.advance(now)
	e.lastOutcome, e.lastMessage, e.lastProbe = outcome, message, now
	switch {
	case outcome != OK:
		e.successes = 0
	case e.thawed:
		e.lastOK = now
	default:
		e.lastOK = now
		e.successes++
		if e.successes >= e.policy.Successes {
			e.thawed, e.everThawed, e.silent, e.successes = true, true, false, 0
		}
	}
}

// deadline is when the endpoint freezes if nothing is heard until then; ok is false while it is frozen.
func (e *endpoint) deadline() (at time.Time, ok bool) {
	return e.lastOK.Add(e.policy.After), e.thawed
}
