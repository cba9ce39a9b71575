package machineset

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
)

// actError is a create or delete that the API server refused.
type actError struct {
	reason string
	err    error
}

func (e *actError) Error() string { return e.err.Error() }
func (e *actError) Unwrap() error { return e.err }

// act decides once more, now on live reads, and carries that out: whatever the cache said, a set never gets
// more Machines than replicas by creating. Release comes from the cache, because the live read sees only
// Machines that the selector matches; each release is safe in itself.
func (c *Controller) act(ctx context.Context, set *v1alpha1.MachineSet, release []plan.Machine) error {
	current := &v1alpha1.MachineSet{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(set), current); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("reading the machine set again: %w", err)
	}
	if current.UID != set.UID || current.Generation != set.Generation {
		return nil // Another object, or another will: its event is on the way.
	}
	s, err := c.observe(ctx, c.Live, current, c.Clock.Now(),
		client.MatchingLabels(set.Spec.Selector.MatchLabels), client.Limit(livePage))
	if err != nil {
		return err
	}
	if s.frozen.Frozen {
		return nil
	}
	decided := plan.Decide(s.input)
	klog.FromContext(ctx).V(2).Info("Carrying out plan", "create", decided.Create, "delete", len(decided.Delete),
		"adopt", len(decided.Adopt), "release", len(release), "why", decided.Why)
	return errors.Join(
		c.release(ctx, current, release),
		c.adopt(ctx, current, decided.Adopt),
		c.delete(ctx, current, decided.Delete),
		c.create(ctx, current, decided.Create),
	)
}

func (c *Controller) create(ctx context.Context, set *v1alpha1.MachineSet, count int) error {
	if count == 0 {
		return nil
	}
	created, err := slowStart(count, func(int) error {
		machine := newMachine(set)
		if err := c.Client.Create(ctx, machine); err != nil {
			return err
		}
		c.expected.expect(set.UID, machine.UID, false, c.Clock.Now())
		return nil
	})
	machinesCreated.WithLabelValues(set.Spec.ClusterName).Add(float64(created))
	if created > 0 {
		emit(c.Recorder, set, createdEvent(created))
	}
	if err != nil {
		createFailures.WithLabelValues(set.Spec.ClusterName).Inc()
		err = &actError{v1alpha1.ReasonCreateFailed, fmt.Errorf("creating machines (%d of %d created): %w", created, count, err)}
		emit(c.Recorder, set, failedEvent(v1alpha1.ReasonCreateFailed, err))
	}
	return err
}

func (c *Controller) delete(ctx context.Context, set *v1alpha1.MachineSet, victims []plan.Victim) error {
	if len(victims) == 0 {
		return nil
	}
	deleted, err := inParallel(len(victims), func(i int) error {
		machine := &v1alpha1.Machine{}
		machine.Namespace, machine.Name = set.Namespace, victims[i].Name
		// The UID keeps another Machine of the same name safe.
		err := c.Client.Delete(ctx, machine, client.Preconditions{UID: &victims[i].UID})
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		c.expected.expect(set.UID, victims[i].UID, true, c.Clock.Now())
		return nil
	})
	machinesDeleted.WithLabelValues(set.Spec.ClusterName).Add(float64(deleted))
	if deleted > 0 {
		emit(c.Recorder, set, deletedEvent(deleted, victims))
	}
	if err != nil {
		err = &actError{v1alpha1.ReasonDeleteFailed, fmt.Errorf("deleting machines (%d of %d deleted): %w", deleted, len(victims), err)}
		emit(c.Recorder, set, failedEvent(v1alpha1.ReasonDeleteFailed, err))
	}
	return err
}
