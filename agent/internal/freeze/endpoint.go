package freeze

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// DefaultAfter and DefaultSuccesses are the Policy of an agent without options.
const DefaultAfter, DefaultSuccesses = 30 * time.Second, 3

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

// advanceTo freezes if the last good answer is too old at the time now.
func (e *endpoint) advanceTo(now time.Time) {
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

// observeProbe takes in the result of a probe that ended at now.
func (e *endpoint) observeProbe(outcome Outcome, message string, now time.Time) {
	e.advanceTo(now)
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

// freezeDeadline is when the endpoint freezes if nothing is heard until then; ok is false while it is frozen.
func (e *endpoint) freezeDeadline() (at time.Time, ok bool) {
	return e.lastOK.Add(e.policy.After), e.thawed
}

// Outcome is what came of a probe. Only OK counts as an answer: an API server that refuses or is overloaded
// is not proven healthy.
type Outcome string

// The outcomes.
const (
	// OK: the request was answered as it should be.
	OK Outcome = "OK"
	// Unauthorized: the credentials are not accepted (401).
	Unauthorized Outcome = "Unauthorized"
	// Forbidden: the credentials do not allow the request (403).
	Forbidden Outcome = "Forbidden"
	// NotFound: the API server answers, and what must be there is not (404), such as the agent's own Cluster
	// on a hub that was restored empty.
	NotFound Outcome = "NotFound"
	// RateLimited: too many requests (429).
	RateLimited Outcome = "RateLimited"
	// ServerError: the API server failed (5xx).
	ServerError Outcome = "ServerError"
	// Timeout: no answer in time.
	Timeout Outcome = "Timeout"
	// Refused: nothing listens there, or the connection was broken.
	Refused Outcome = "Refused"
	// Undecodable: the API server answers, and what it says of the agent's own Cluster cannot be decoded.
	Undecodable Outcome = "Undecodable"
	// Failed: anything else, such as a certificate that is not trusted. The message tells.
	Failed Outcome = "Failed"
)

// Outcomes lists every outcome.
var Outcomes = []Outcome{OK, Unauthorized, Forbidden, NotFound, RateLimited, ServerError, Timeout, Refused, Undecodable, Failed}

// Classify tells what the error of a probe means.
func Classify(err error) Outcome {
	var status apierrors.APIStatus
	var network net.Error
	switch {
	case err == nil:
		return OK
	case undecodable.Is(err):
		return Undecodable
	case apierrors.IsUnauthorized(err):
		return Unauthorized
	case apierrors.IsForbidden(err):
		return Forbidden
	case apierrors.IsNotFound(err):
		return NotFound
	case apierrors.IsTooManyRequests(err):
		return RateLimited
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return ServerError
	case errors.As(err, &status) && status.Status().Code >= 500:
		return ServerError
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Timeout
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Refused
	case errors.As(err, &network) && network.Timeout():
		return Timeout
	}
	return Failed
}
