// Package plan decides how an agent comes to its credential for the hub. It is pure: the time and what is random
// are given.
package plan

import "time"

// Held is the credential that the agent has.
type Held struct {
	NotAfter time.Time
	// RenewAt is when it is to be renewed.
	RenewAt time.Time
	// Refused: the hub says that it does not know it (401), again and again.
	Refused bool
}

// Bootstrap is the credential that the agent joins with.
type Bootstrap struct {
	// Given: there is one of the right kind.
	Given bool
	// Refused: the hub did not know it (401) when it was last used.
	Refused bool
}

// Identity is what a new credential is asked for with.
type Identity string

// The identities.
const (
	Own      Identity = "own credential"
	Joining  Identity = "bootstrap credential"
	Nobody   Identity = "nobody"
	fraction          = 0.20
	jitter            = 0.05
)

// RenewAt returns when a credential that the agent took at some time is to be renewed: when 20 to 25 % of its
// lifetime is left, random being in [0, 1).
//
// Not sooner than after a tenth of its lifetime, however: an agent whose clock is wrong must not ask for one
// credential after the other.
func RenewAt(notBefore, notAfter, taken time.Time, random float64) time.Time {
	lifetime := notAfter.Sub(notBefore)
	left := time.Duration((fraction + jitter*random) * float64(lifetime))
	at := notAfter.Add(-left)
	if earliest := taken.Add(lifetime / 10); at.Before(earliest) {
		return earliest
	}
	return at
}

// Due tells whether a new credential is to be asked for.
func Due(held *Held, now time.Time) bool {
	return held == nil || held.Refused || !now.Before(held.RenewAt)
}

// As decides with which identity to ask. A credential that has expired by the agent's clock is tried all the same
// when there is no other way: the clock may be wrong.
func As(held *Held, bootstrap Bootstrap, now time.Time) Identity {
	usable := held != nil && !held.Refused
	switch {
	case usable && now.Before(held.NotAfter):
		return Own
	case bootstrap.Given && !bootstrap.Refused:
		return Joining
	case usable:
		return Own
	case bootstrap.Given:
		// Refused before, but tried again: the hub may have been restored, or the token's Secret made late.
		return Joining
	}
	return Nobody
}

// State is how far a certificate request has come.
type State string

// The states.
const (
	Pending  State = "Pending"
	Approved State = "Approved"
	Issued   State = "Issued"
	Denied   State = "Denied"
	Failed   State = "Failed"
)

// Request is the certificate request that stands under the agent's one name.
type Request struct {
	State State
	// Mine: it was made with the key that this agent keeps for it.
	Mine bool
	// Known is how long this process has known it in this state, by its own clock.
	Known time.Duration
}

// Step is what to do next about the request.
type Step string

// The steps.
const (
	// Create asks anew, with a new key.
	Create Step = "Create"
	// Remove makes room for a new request.
	Remove Step = "Remove"
	// Collect takes the certificate.
	Collect Step = "Collect"
	// Await leaves the request to the hub, or to the other agent whose request it is.
	Await Step = "Await"
)

const (
	// courtesy is how long a request of another agent is left alone. It counts from when this process first saw
	// the request, so the request is at least as old, whatever the clocks say.
	courtesy = time.Minute
	// longestCourtesy bounds it. Two agents that both wait for their approval would take each other's request
	// away once a minute for ever if it did not grow.
	longestCourtesy = 16 * time.Minute
	// refused is how long after a denial an agent asks again, longestRefused bounds it.
	refused        = 15 * time.Second
	longestRefused = 10 * time.Minute
)

// Next decides what to do about the request, nil if there is none. removed counts the requests of other agents
// that were removed for this credential, refusals the refused requests of this one.
func Next(request *Request, removed, refusals int) Step {
	switch {
	case request == nil:
		return Create
	case request.Mine && request.State == Issued:
		return Collect
	case request.Mine && (request.State == Denied || request.State == Failed):
		if request.Known >= doubled(refused, refusals, longestRefused) {
			return Remove
		}
		return Await
	case request.Mine:
		return Await
	case request.State != Pending && request.State != Approved:
		return Remove
	case request.Known >= doubled(courtesy, removed, longestCourtesy):
		return Remove
	}
	return Await
}

const (
	shortestBackoff = time.Second
	longestBackoff  = 2 * time.Minute
)

// Backoff is how long to wait after a number of failures in a row, a quarter more or less.
func Backoff(failures int, random float64) time.Duration {
	return time.Duration((0.75 + random/2) * float64(doubled(shortestBackoff, failures-1, longestBackoff)))
}

func doubled(from time.Duration, times int, bound time.Duration) time.Duration {
	for ; times > 0 && from < bound; times-- {
		from *= 2
	}
	return min(from, bound)
}
