package fakecri

import (
	"context"
	"time"

	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// exitCodeStopped is what a program without a handler for SIGTERM leaves behind. It keeps the pod of an
	// evicted Job from counting as completed.
	exitCodeStopped = 128 + 15
	// exitCodeKilled is what a program leaves behind that did not end in its grace period.
	exitCodeKilled = 128 + 9
)

// maxGracePeriod is long enough for everybody, and short enough to count in.
const maxGracePeriod = 1 << 31

// StopContainer tells a container to end, and waits until it has. It ends by itself within the grace period, which is
// given in seconds, or is killed at its end. Stopping what is gone is no error. When ctx ends first, the container has
// been told to end, and does so if it can; only another call kills it.
func (r *Runtime) StopContainer(ctx context.Context, id string, gracePeriod int64) error {
	grace := time.Duration(min(max(gracePeriod, 0), maxGracePeriod)) * time.Second
	deadline := r.options.Clock.Now().Add(grace)
	for {
		wait, ended := r.terminateContainer(id, grace, deadline)
		if wait <= 0 {
			return nil
		}
		timer := r.options.Clock.NewTimer(wait)
		select {
		case <-ended:
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return status.FromContextError(ctx.Err()).Err()
		}
		timer.Stop()
	}
}

// terminateContainer tells a container to end if it has not been told, and kills it if the deadline is over. It returns how long
// the container continues at most, 0 if it has ended, and what is closed when it ends sooner.
func (r *Runtime) terminateContainer(id string, grace time.Duration, deadline time.Time) (time.Duration, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return 0, nil
	}
	now := r.options.Clock.Now()
	r.endIfDue(c)
	r.signalContainer(c, now, grace)
	r.endIfDue(c)
	if c.listed.State == runtimeapi.ContainerState_CONTAINER_RUNNING && !now.Before(deadline) {
		c.finishAt(deadline, exitCodeKilled)
	}
	if c.listed.State == runtimeapi.ContainerState_CONTAINER_EXITED {
		return 0, nil
	}
	until := deadline
	if end, _, ends := c.endTime(); ends && end.Before(until) {
		until = end
	}
	if c.ended == nil {
		c.ended = make(chan struct{})
	}
	return until.Sub(now), c.ended
}

// signalContainer is SIGTERM, of which only the first one counts. The caller holds the lock.
func (r *Runtime) signalContainer(c *container, now time.Time, grace time.Duration) {
	switch {
	case c.listed.State == runtimeapi.ContainerState_CONTAINER_CREATED:
		c.finishAt(now, exitCodeStopped)
	case c.listed.State == runtimeapi.ContainerState_CONTAINER_RUNNING && c.signalledAt.IsZero():
		c.signalledAt = now
		if after, killed := r.reactionTo(c, grace); !killed {
			c.terminatesAt = now.Add(after)
		}
	}
}

// reactionTo is how long a container takes to end by itself in a grace period, or whether it is killed at its end.
func (r *Runtime) reactionTo(c *container, grace time.Duration) (after time.Duration, killed bool) {
	after, scripted := c.script[TerminatesAfterAnnotation]
	percent := r.options.TerminationPercent
	if scripted && after == 0 || !scripted && percent == 0 {
		return 0, false
	}
	if !scripted {
		after = grace / 100 * time.Duration(percent)
	}
	return after, after >= grace
}

// stopContainer ends the container from outside, without a grace period. The caller holds the lock.
func (r *Runtime) stopContainer(c *container) {
	r.endIfDue(c)
	if c.listed.State == runtimeapi.ContainerState_CONTAINER_EXITED {
		return
	}
	code := int32(exitCodeStopped)
	if _, killed := r.reactionTo(c, 0); killed && c.listed.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
		code = exitCodeKilled
	}
	c.finishAt(r.options.Clock.Now(), code)
}
