package loadtest

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// removalTurn is how long the removal of what a run made keeps the next run waiting. It is shorter than the default prepareTimeout
	// of a LoadTest.
	removalTurn = 30 * time.Second
	// refusedPause is how long a run that the hub refuses to have written is passed over.
	refusedPause = time.Minute
)

// turns is what keeps a run from being the next although it is not over.
type turns struct {
	// removing is since when this agent has been removing what a run made.
	removing map[types.UID]time.Time
	// refused is when the hub refused a change of a run: a stricter schema may have come since it was created.
	refused map[types.UID]time.Time
}

// hasTurn reports whether a run that is not over may keep others waiting.
func (c *Controller) hasTurn(run *v1alpha1.LoadTestRun) bool {
	now := c.Clock.Now()
	if at, is := c.turns.refused[run.UID]; is && now.Sub(at) < refusedPause {
		return false
	}
	since, is := c.turns.removing[run.UID]
	return !is || now.Sub(since) < c.removalTurn
}

// isRemoved reports whether only what a run made has to be removed.
func (c *Controller) isRemoved(run *v1alpha1.LoadTestRun) bool {
	return c.executionOf(run.UID) == nil && (run.DeletionTimestamp != nil || run.Status.Phase == v1alpha1.LoadTestRunPhaseCleaningUp)
}

// noteTurns remembers for the next rounds what holds runs back. Runs that are gone are forgotten.
func (c *Controller) noteTurns(runs []*v1alpha1.LoadTestRun) {
	removing, refused := map[types.UID]time.Time{}, map[types.UID]time.Time{}
	for _, run := range runs {
		if at, is := c.turns.refused[run.UID]; is {
			refused[run.UID] = at
		}
		if c.isRemoved(run) {
			since, is := c.turns.removing[run.UID]
			if !is {
				since = c.Clock.Now()
			}
			removing[run.UID] = since
		}
	}
	c.turns = turns{removing: removing, refused: refused}
}

// passOver lets the next run have its turn if the hub refuses for good to have this one written.
func (c *Controller) passOver(run *v1alpha1.LoadTestRun, err error) {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) {
		c.turns.refused[run.UID] = c.Clock.Now()
	}
}

// advanceRun does what is next for a run.
func (c *Controller) advanceRun(ctx, life context.Context, run, first *v1alpha1.LoadTestRun, frozen string) error {
	switch {
	case run.DeletionTimestamp != nil:
		return c.removeRun(ctx, run, frozen)
	case isOver(run.Status.Phase):
		return nil
	case c.isRemoved(run):
		return c.cleanUpRun(ctx, run, frozen)
	case first != nil && run.UID == first.UID:
		return c.carryOut(ctx, life, run, frozen)
	case first != nil && c.hasTurn(run):
		return c.reportWaiting(ctx, run, first)
	}
	return nil
}

// isUnsettled reports whether there is something to do for a run although it is not its turn.
func (c *Controller) isUnsettled(run *v1alpha1.LoadTestRun) bool {
	_, isRefused := c.turns.refused[run.UID]
	return isRefused || c.isRemoved(run)
}
