package machine

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// reports are what the hub is told of Machines, and when.
type reports struct {
	times  *lifetimes
	stalls *stalls
	events *recorder
	clock  clock.PassiveClock
}

func (r *reports) forgetMachine(uid types.UID) {
	r.stalls.forgetMachine(uid)
	r.events.forgetMachine(uid)
}

// report puts the status that was observed into the machine, with what came of the actions.
func (r *reports) report(s *scope, actErr error) {
	var invalid *driver.InvalidConfigurationError
	var frozen *freeze.Error
	var conflict *driver.NameConflictError
	switch {
	case errors.As(actErr, &conflict):
		s.nameConflict = conflict.Error()
		s.recheckWithin(conflictRecheck)
	case errors.As(actErr, &invalid):
		s.Terminal = &Terminal{Reason: v1alpha1.ErrorInvalidConfiguration, Message: invalid.Error()}
	case errors.As(actErr, &frozen):
		s.Frozen = true
	case apierrors.IsConflict(actErr): // Something has changed since it was read. It is read again soon.
	case actErr != nil:
		s.problem = actErr.Error()
	}
	r.computeStatus(s)
}

// computeStatus puts the status into the machine, and asks to be back when its next timeout is over.
func (r *reports) computeStatus(s *scope) {
	input := Input{
		Observation: s.Observation, Problem: s.problem, Drain: s.drain, Updating: s.updating,
		UpdateProblem: s.updateProblem, NameConflict: s.nameConflict, Held: s.held, HeldByFinalizers: s.heldByFinalizers, Now: r.clock.Now(),
	}
	if !s.Machine.DeletionTimestamp.IsZero() {
		input.DrainSince = r.times.drainStarted(s.Machine)
	}
	computed := Compute(input)
	if deadline := Deadline(computed, input); deadline > 0 {
		s.recheckWithin(deadline)
	}
	s.Machine.Status = computed
}

// nextAfter holds a status back that is not worth a write yet, and says what follows an error.
func (r *reports) nextAfter(machine *v1alpha1.Machine, stored *v1alpha1.MachineStatus, next reconciler.Next, err error) (reconciler.Next, error) {
	if wait := r.stalls.writeDelay(machine, *stored, r.clock.Now()); wait > 0 {
		machine.Status = *stored
		next = next.NoLaterThan(wait)
	}
	// What is held back is no news yet for the events either.
	r.events.sendChanges(machine, *stored)
	return next, waitFor(err)
}

// waitFor turns what is expected of the freeze, of a provider and of other writers into a wait; everything else is an error. What one
// part of an error waits for, the others wait for too.
func waitFor(err error) error {
	var frozen *freeze.Error
	var retryable *driver.RetryableError
	var exhausted *driver.ExhaustedError
	switch {
	case errors.As(err, &frozen):
		// The thaw wakes every machine.
		return &outcome.Wait{Reason: frozen.Reason, Message: err.Error()}
	case errors.As(err, &exhausted) && exhausted.After > 0:
		return &outcome.Wait{After: exhausted.After, Message: err.Error()}
	case errors.As(err, &exhausted):
		return &outcome.Wait{After: exhaustedRetry, Message: err.Error()}
	case errors.As(err, &retryable) && retryable.After > 0:
		return &outcome.Wait{After: retryable.After, Message: err.Error()}
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return &outcome.Wait{After: outcome.ConflictRetry, Message: err.Error()}
	}
	return err
}
