package localfleet

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// startCheck is how often to look how far a start is, startPatience how long it may make no progress before the next cluster starts
	// all the same.
	startCheck    = time.Second
	startPatience = 3 * time.Minute
)

// startsAtATime is how many clusters start at the same time: more would only wait for each other, and answer late.
func startsAtATime() int { return max(leastStarting, 2*runtime.NumCPU()) }

// errChanged is that what is wanted of a cluster has changed while it waited to start.
var errChanged = errors.New("it has changed meanwhile")

// start is how far the start of a cluster is. Its place is free for another one when it has ended.
type start struct {
	// progress counts what is ready, and progressed is when it last grew.
	progress   int
	progressed time.Time
}

// noteProgress takes in what is ready now, and reports whether the start has stalled.
func (s *start) noteProgress(progress int, now time.Time) (stalled bool) {
	if progress > s.progress {
		s.progress, s.progressed = progress, now
	}
	return now.Sub(s.progressed) > startPatience
}

// beginStart waits until the cluster may start.
func (h *hosted) beginStart(ctx context.Context) error {
	if h.start != nil {
		return nil
	}
	h.setWaiting(fmt.Sprintf("it waits until one of the %d clusters that start now is ready", startsAtATime()))
	defer h.setWaiting("")
	select {
	case h.fleet.hosting.starting <- struct{}{}:
		h.start = &start{progressed: time.Now()}
		return nil
	case <-h.wake:
		return errChanged
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// endStart lets another cluster start.
func (h *hosted) endStart() {
	if h.start != nil {
		h.start = nil
		<-h.fleet.hosting.starting
	}
}

// followStart ends the start of a cluster that the hub calls ready with all of its Machines, or that makes no progress.
func (h *hosted) followStart(ctx context.Context) {
	if h.start == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, proofPatience)
	defer cancel()
	ready, wanted, err := h.countReady(ctx)
	if h.start.noteProgress(ready, time.Now()) || err == nil && ready == wanted {
		h.endStart()
	}
}

// countReady counts the cluster and its Machines: how many of them the hub calls ready, and how many there are to be.
func (h *hosted) countReady(ctx context.Context) (ready, wanted int, err error) {
	one := &v1alpha1.SimulatedCluster{}
	err = h.fleet.HubClient.Get(ctx, client.ObjectKey{Namespace: HostName, Name: h.name}, one)
	if apierrors.IsNotFound(err) {
		return 0, 0, nil // There is nothing to wait for.
	}
	if err != nil {
		return 0, 0, fmt.Errorf("reading SimulatedCluster %s: %w", h.name, err)
	}
	if !meta.IsStatusConditionTrue(one.Status.Conditions, v1alpha1.ReadyCondition) {
		return 0, 1, nil
	}
	list := &v1alpha1.MachineDeploymentList{}
	if err := h.fleet.HubClient.List(ctx, list, client.InNamespace(h.name)); err != nil {
		return 0, 0, fmt.Errorf("listing the machine deployments of %s: %w", h.name, err)
	}
	ready, wanted = 1, 1
	for i := range list.Items {
		deployment := &list.Items[i]
		replicas := v1alpha1.DesiredReplicas(deployment.Spec.Replicas)
		wanted += replicas
		ready += min(replicas, int(deployment.Status.ReadyReplicas))
	}
	return ready, wanted, nil
}

func (h *hosted) setWaiting(why string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.waiting = why
}
