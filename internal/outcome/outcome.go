// Package outcome has the ways in which a step of a controller ends without success: it waits, it can never succeed as things are, or
// it has failed. The runner of package reconciler turns each into what follows, so that no controller tells them apart itself.
package outcome

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ConflictRetry is when a step is taken again that met another writer, should the newer version not wake it before.
const ConflictRetry = time.Second

// Wait is expected: nothing has failed, so no condition, event or error log tells of it.
type Wait struct { //nolint:errname // It is named by how a step ends.
	// After is when to try again. 0 means at the next event.
	After time.Duration
	// Reason and Message say what is waited for.
	Reason, Message string
}

func (w *Wait) Error() string { return w.Message }

// Terminal cannot succeed until a user changes something: a condition says so, and it is not tried again before the next event.
type Terminal struct{ Reason, Message string } //nolint:errname // See Wait.

func (t *Terminal) Error() string { return t.Message }

// Failure is an error with the reason by which a condition and an event tell of it. It is tried again with back-off, as every error.
type Failure struct { //nolint:errname // See Wait.
	Reason string
	Err    error
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Retry says what follows an error: whether it is settled, which is to say that it only waits or is terminal, so that nobody has to be
// told, and then after how long to try again; 0 means at the next event. Of several joined errors all have to be settled, and the
// first that is due counts. A conflict is a Wait, and so is what wraps one, whatever else it says.
func Retry(err error) (after time.Duration, settled bool) {
	for _, part := range split(err) {
		var wait *Wait
		var terminal *Terminal
		due := time.Duration(0)
		switch {
		case apierrors.IsConflict(part):
			due = ConflictRetry
		case errors.As(part, &wait):
			due = wait.After
		case !errors.As(part, &terminal):
			return 0, false
		}
		if due > 0 && (after == 0 || due < after) {
			after = due
		}
	}
	return after, err != nil
}

// Failures are what a user is to be told of an error: those of its parts that have a reason, and do not just wait.
func Failures(err error) []*Failure {
	var failures []*Failure
	for _, part := range split(err) {
		var failure *Failure
		var terminal *Terminal
		_, settled := Retry(part)
		switch {
		case errors.As(part, &terminal):
			failures = append(failures, &Failure{terminal.Reason, part})
		case !settled && errors.As(part, &failure):
			failures = append(failures, &Failure{failure.Reason, part})
		}
	}
	return failures
}

// split returns what err joins, at any depth; err itself if it joins nothing. The text around joined errors is lost.
func split(err error) []error {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		if err == nil {
			return nil
		}
		return []error{err}
	}
	var parts []error
	for _, part := range joined.Unwrap() {
		parts = append(parts, split(part)...)
	}
	return parts
}
