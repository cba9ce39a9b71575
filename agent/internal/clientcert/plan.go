// The decision how an agent comes to its credential is pure: the time and what is random are given.

package clientcert

import (
	"time"

	"github.com/hollowfleet/hollowfleet/internal/backoff"
)

// heldCredential is the credential that the agent has.
type heldCredential struct {
	NotAfter time.Time
	// RenewAt is when to renew it.
	RenewAt time.Time
	// Refused: the hub says that it does not know it (401), again and again.
	Refused bool
}

// bootstrapState is the credential that the agent joins with.
type bootstrapState struct {
	// Given: there is one of the right kind.
	Given bool
	// Refused: the hub did not know it (401) when it was last used.
	Refused bool
}

// hubIdentity is what a new credential is asked for with.
type hubIdentity string

// The identities.
const (
	ownIdentity     hubIdentity = "own credential"
	joiningIdentity hubIdentity = "bootstrap credential"
	noIdentity      hubIdentity = "none"
	fraction                    = 0.20
	jitter                      = 0.05
)

// renewalTime returns when a credential that the agent took at some time is to be renewed: when 20 to 25 % of its
// lifetime is left, random being in [0, 1).
//
// Not sooner than after a tenth of its lifetime, however: an agent whose clock is wrong must not ask for one
// credential after the other.
func renewalTime(notBefore, notAfter, taken time.Time, random float64) time.Time {
	lifetime := notAfter.Sub(notBefore)
	left := time.Duration((fraction + jitter*random) * float64(lifetime))
	at := notAfter.Add(-left)
	if earliest := taken.Add(lifetime / 10); at.Before(earliest) {
		return earliest
	}
	return at
}

// renewalDue reports whether a new credential is to be asked for.
func renewalDue(held *heldCredential, now time.Time) bool {
	return held == nil || held.Refused || !now.Before(held.RenewAt)
}

// identityToUse decides with which identity to ask. A credential that has expired by the agent's clock is tried all the same
// when there is no other way: the clock may be wrong.
func identityToUse(held *heldCredential, bootstrap bootstrapState, now time.Time) hubIdentity {
	usable := held != nil && !held.Refused
	switch {
	case usable && now.Before(held.NotAfter):
		return ownIdentity
	case bootstrap.Given && !bootstrap.Refused:
		return joiningIdentity
	case usable:
		return ownIdentity
	case bootstrap.Given:
		// Refused before, but tried again: the hub may have been restored, or the token's Secret made late.
		return joiningIdentity
	}
	return noIdentity
}

// requestState is how far a certificate request has come.
type requestState string

// The states.
const (
	requestPending  requestState = "Pending"
	requestApproved requestState = "Approved"
	requestIssued   requestState = "Issued"
	requestDenied   requestState = "Denied"
	requestFailed   requestState = "Failed"
)

// observedRequest is the certificate request that stands under the agent's one name.
type observedRequest struct {
	State requestState
	// Mine: it was made with the key that this agent keeps for it.
	Mine bool
	// Known is how long this process has known it in this state, by its own clock.
	Known time.Duration
}

// requestStep is what to do next about the request.
type requestStep string

// The steps.
const (
	// createRequest asks again, with a new key.
	createRequest requestStep = "Create"
	// removeRequest makes room for a new request.
	removeRequest requestStep = "Remove"
	// collectCertificate takes the certificate.
	collectCertificate requestStep = "Collect"
	// awaitRequest leaves the request to the hub, or to the other agent whose request it is.
	awaitRequest requestStep = "Await"
)

const (
	// courtesy is how long a request of another agent is left alone. It counts from when this process first saw
	// the request, so the request is at least as old, whatever the clocks say.
	courtesy = time.Minute
	// longestCourtesy bounds it. Two agents that both wait for their approval would take each other's request
	// away once a minute forever if it did not grow.
	longestCourtesy = 16 * time.Minute
	// refused is how long after a denial an agent asks again, longestRefused bounds it.
	refused        = 15 * time.Second
	longestRefused = 10 * time.Minute
)

// nextStep decides what to do about the request, nil if there is none. removed counts the requests of other agents
// that were removed for this credential, refusals the refused requests of this one.
func nextStep(request *observedRequest, removed, refusals int) requestStep {
	switch {
	case request == nil:
		return createRequest
	case request.Mine && request.State == requestIssued:
		return collectCertificate
	case request.Mine && (request.State == requestDenied || request.State == requestFailed):
		if request.Known >= backoff.Delay(refusals+1, refused, longestRefused) {
			return removeRequest
		}
		return awaitRequest
	case request.Mine:
		return awaitRequest
	case request.State != requestPending && request.State != requestApproved:
		return removeRequest
	case request.Known >= backoff.Delay(removed+1, courtesy, longestCourtesy):
		return removeRequest
	}
	return awaitRequest
}

const (
	shortestBackoff = time.Second
	longestBackoff  = 2 * time.Minute
)

// retryDelay is how long to wait after a number of failures in a row, a quarter more or less.
func retryDelay(failures int, random float64) time.Duration {
	return time.Duration((0.75 + random/2) * float64(backoff.Delay(failures, shortestBackoff, longestBackoff)))
}
