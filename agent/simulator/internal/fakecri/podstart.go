package fakecri

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PodStart tells how the start of a pod with a UID is disturbed: how long it waits, and why it fails then; empty if it does
// not.
type PodStart func(uid string) (delay time.Duration, failure string)

// DisturbPodStarts lets pods start as disturb says; nil lets them start at once. Pods that wait go by it as well.
func (g *Gate) DisturbPodStarts(disturb PodStart) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.podStart = disturb
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// podStarts returns how pods start, and what is closed when that changes.
func (g *Gate) podStarts() (PodStart, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.podStart, g.changed
}

// awaitPodStart returns when a pod may start, or why it cannot.
func (r *Runtime) awaitPodStart(ctx context.Context, pod *runtimeapi.PodSandboxMetadata) error {
	began := r.options.Clock.Now()
	for {
		disturb, changed := r.gate.podStarts()
		if disturb == nil {
			return nil
		}
		delay, failure := disturb(pod.GetUid())
		left := delay - r.options.Clock.Since(began)
		if left <= 0 {
			if failure != "" {
				return status.Errorf(codes.Unavailable, "failed to start the sandbox of pod %s/%s: %s", pod.GetNamespace(), pod.GetName(), failure)
			}
			return nil
		}
		timer := r.options.Clock.NewTimer(left)
		select {
		case <-timer.C():
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			return status.FromContextError(ctx.Err()).Err()
		}
		timer.Stop()
	}
}
