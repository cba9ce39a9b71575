package cmdutil

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// The exit codes. They never change their meaning.
const (
	OK          = 0
	Failed      = 1
	BadUsage    = 2
	Missing     = 3
	Refused     = 4
	TimedOut    = 5
	Interrupted = 130
)

// Help is the list of exit codes that the help text shows.
const Help = `Exit codes:
  0    done
  1    something failed, such as the connection to the hub
  2    the command line cannot be understood
  3    an object that was named does not exist
  4    refused: the state of an object, your rights or a concurrent change do not allow it
  5    timed out, or a rollout, test or disruption failed
  130  interrupted`

// coded is an error that knows its exit code.
type coded struct {
	error
	code int
}

func (c *coded) Unwrap() error { return c.error }

// Usage is a command line that cannot be understood.
func Usage(format string, args ...any) error { return &coded{fmt.Errorf(format, args...), BadUsage} }

// AsUsage turns err, if it is one, into an error of usage.
func AsUsage(err error) error {
	if err == nil {
		return nil
	}
	return &coded{err, BadUsage}
}

// NotFound is an object that does not exist.
func NotFound(format string, args ...any) error { return &coded{fmt.Errorf(format, args...), Missing} }

// Refusal is something that may not be done as things are. The message says what would help.
func Refusal(format string, args ...any) error { return &coded{fmt.Errorf(format, args...), Refused} }

// Timeout is something that did not happen in time.
func Timeout(format string, args ...any) error {
	return &coded{fmt.Errorf(format, args...), TimedOut}
}

// Code is the exit code of err.
func Code(err error) int {
	var known *coded
	switch {
	case err == nil:
		return OK
	case errors.As(err, &known):
		return known.code
	case errors.Is(err, context.Canceled):
		return Interrupted
	case apierrors.IsNotFound(err):
		return Missing
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsInvalid(err),
		apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return Refused
	case errors.Is(err, context.DeadlineExceeded), wait.Interrupted(err):
		return TimedOut
	}
	return Failed
}
