package machine

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// updates bring instances up to date where they are.
type updates struct {
	orders   *orders
	creation *creation
	nodes    *nodes
	turns    *sequencer
}

// observeUpdate finds out, before anything is drained, whether an instance that is out of date may be updated now.
func (u *updates) observeUpdate(ctx context.Context, s *scope) error {
	s.Update.Cordoned = s.Node != nil && s.Node.Annotations[v1alpha1.NodeCordonedAnnotation] == node.ForUpdate
	if !OutOfDate(s.Observation) || !Joined(s.Observation) {
		return nil
	}
	err := s.driver.CheckUpdate(ctx, s.driverRequest())
	var unsupported *driver.InPlaceUnsupportedError
	var invalid *driver.InvalidConfigurationError
	switch {
	case errors.As(err, &unsupported):
		s.Update.Unsupported = unsupported.Error()
		return nil
	case errors.As(err, &invalid):
		s.Terminal = &Terminal{Reason: v1alpha1.ErrorInvalidConfiguration, Message: invalid.Error()}
		return nil
	case err != nil:
		s.Update.Waiting = err.Error()
		return fmt.Errorf("asking whether the instance can be updated in place: %w", err)
	}
	err = u.turns.observeTurn(ctx, s)
	u.limitUpdate(s)
	return err
}

// limitUpdate lets an update in place wait, started or not.
func (u *updates) limitUpdate(s *scope) {
	if s.Frozen || s.Update.Waiting != "" && !IsUpdating(s.Observation) || !u.orders.isRateLimited(s) {
		return
	}
	s.Update.Limited = limitedMessage
	if IsUpdating(s.Observation) {
		s.drain = limitedReport()
	}
}

func (u *updates) updateInstance(ctx context.Context, s *scope) error {
	drained := Joined(s.Observation)
	instance, err := s.driver.Update(ctx, s.driverRequest())
	var unsupported *driver.InPlaceUnsupportedError
	if errors.As(err, &unsupported) {
		s.Update.Unsupported = unsupported.Error()
		return u.giveBack(ctx, s)
	}
	if err != nil {
		s.updateProblem = updateProblem(err, drained)
		return err
	}
	if instance.State == driver.Deleting {
		u.creation.replaced.Store(s.Machine.UID, true)
	}
	s.adoptInstance(instance)
	s.updating = drained
	return nil
}

// giveBack takes the cordon of an update back that will not happen.
func (u *updates) giveBack(ctx context.Context, s *scope) error {
	if !s.Update.Cordoned {
		return nil
	}
	return u.nodes.uncordonNode(ctx, s)
}

// updateProblem says why an update has failed; a freeze, an invalid configuration, or the refresh of what a new
// Machine needs to join is no failed update.
func updateProblem(err error, drained bool) string {
	var frozen *freeze.Error
	if !drained || errors.As(err, &frozen) || errors.Is(err, driver.ErrInvalidConfiguration) {
		return ""
	}
	return err.Error()
}

// drainForUpdate evicts what can be evicted for an update that the hub, asked at this moment, still wants.
func (u *updates) drainForUpdate(ctx context.Context, s *scope) error {
	live, err := u.orders.readLive(ctx, s.Machine)
	if err != nil {
		return err
	}
	if live == nil || !live.DeletionTimestamp.IsZero() || live.Generation != s.Machine.Generation {
		// The event that brings the cache up to date wakes this machine.
		s.drain = &drain.Report{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDraining, Message: "the machine has changed in the meantime"}
		s.recheckWithin(conflictRetry)
		return nil
	}
	if err := u.orders.checkPermitted(ctx); err != nil {
		return err
	}
	// The evictions go by the Node's name: it must still be the Machine's.
	found, err := u.nodes.readOwnNode(ctx, s)
	if err != nil {
		return err
	}
	if found == nil {
		s.drain = &drain.Report{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDraining, Message: "the node is gone, or no longer the machine's"}
		s.recheckWithin(conflictRetry)
		return nil
	}
	s.Node = found
	return u.nodes.drainNode(ctx, s)
}
