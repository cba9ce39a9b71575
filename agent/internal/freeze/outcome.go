package freeze

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

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
