package podhost

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/podstatus"
)

// The time between attempts to reach the API server about a pod that has ended.
const (
	firstRemoveRetry = 100 * time.Millisecond
	lastRemoveRetry  = 10 * time.Second
)

// statusWriter writes the statuses of pods to the API server, and removes the objects of those that have ended.
type statusWriter struct {
	client kubernetes.Interface
	lister corev1listers.PodLister

	// settled goes off when nothing was written for a while.
	settled *time.Timer

	mu sync.Mutex
	// written holds the last version of each pod that a write returned. The cache behind the lister may not have it yet.
	written map[types.UID]*corev1.Pod
}

// write writes the pod's status if it differs from the API server's. It is an update that names the version it is based on, so a version
// that is too old leads to a conflict and not to a wrong status. The pod that is gone, or was replaced by another of the same name, is
// left alone.
func (w *statusWriter) write(ctx context.Context, pod *corev1.Pod) error {
	base, err := w.base(pod)
	if apierrors.IsNotFound(err) || err == nil && base.UID != pod.UID {
		return nil
	}
	if err != nil {
		return err
	}
	merged := podstatus.Merge(pod.Status, base.Status)
	if equality.Semantic.DeepEqual(merged, base.Status) {
		return nil
	}
	update := base.DeepCopy()
	update.Status = merged
	updated, err := w.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, update, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	updated.ManagedFields = nil
	w.settled.Reset(settleTime)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written[pod.UID] = updated
	return nil
}

// base returns the newest version of the pod that is known here.
func (w *statusWriter) base(pod *corev1.Pod) (*corev1.Pod, error) {
	cached, err := w.lister.Pods(pod.Namespace).Get(pod.Name)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if written := w.written[pod.UID]; written != nil && cached.UID == pod.UID && isNewer(written, cached) {
		return written, nil
	}
	return cached, nil
}

// isNewer compares versions of one pod. The API guarantees that those of one resource are numbers that grow.
func isNewer(a, b *corev1.Pod) bool {
	versionA, errA := strconv.ParseUint(a.ResourceVersion, 10, 64)
	versionB, errB := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return errA == nil && errB == nil && versionA > versionB
}

// writeAndRemove writes the pod's last status and removes its object. It retries until the context ends.
func (w *statusWriter) writeAndRemove(ctx context.Context, pod *corev1.Pod) {
	retry(ctx, pod, "Writing the last status of a pod failed, will retry", func() error {
		err := w.write(ctx, pod)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			return nil // the object is gone, or will not take it: removing it matters more
		}
		return err
	})
	w.remove(ctx, pod)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.written, pod.UID)
}

// remove removes the pod's object, but not that of another pod of its name. That it is gone already is believed of the watch alone: an
// API server that has just started answers a node's deletion of any pod with NotFound, because NodeRestriction looks into an informer
// that has not listed yet.
func (w *statusWriter) remove(ctx context.Context, pod *corev1.Pod) {
	retry(ctx, pod, "Removing the object of a pod failed, will retry", func() error {
		err := w.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To[int64](0),
			Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
		})
		if (apierrors.IsNotFound(err) || apierrors.IsConflict(err)) && w.isGone(pod) {
			return nil
		}
		return err
	})
}

// isGone reports whether the watch knows no such pod any more.
func (w *statusWriter) isGone(pod *corev1.Pod) bool {
	known, err := w.lister.Pods(pod.Namespace).Get(pod.Name)
	return apierrors.IsNotFound(err) || err == nil && known.UID != pod.UID
}

// retry repeats the action until it succeeds or the context ends. That an object is another one than expected, or none, is no failure to
// tell of.
func retry(ctx context.Context, pod *corev1.Pod, complaint string, action func() error) {
	for delay := firstRemoveRetry; ; delay = min(2*delay, lastRemoveRetry) {
		err := action()
		if err == nil || ctx.Err() != nil {
			return
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			klog.FromContext(ctx).Error(err, complaint, "pod", klog.KObj(pod))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
	}
}
