package podhost

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
)

// The time between attempts to reach the API server about a pod that has ended.
const (
	firstRemoveRetry = 100 * time.Millisecond
	lastRemoveRetry  = 10 * time.Second
)

// remover removes the objects of pods that have ended.
type remover struct {
	client   kubernetes.Interface
	lister   corev1listers.PodLister
	statuses *statusWriter
}

// writeAndRemove writes the pod's last status and removes its object. It
// retries until the context ends.
func (r *remover) writeAndRemove(ctx context.Context, pod *corev1.Pod) {
	defer r.statuses.forget(pod.UID)
	retry(ctx, pod, "Writing the last status of a pod failed, will retry", func() error {
		err := r.statuses.write(ctx, pod)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			return nil // the object is gone, or will not take it: removing it matters more
		}
		return err
	})
	r.remove(ctx, pod)
}

// remove removes the pod's object, but not that of another pod of its name.
// That it is gone already is believed of the watch alone: an API server that
// has just started answers a node's deletion of any pod with NotFound, because
// NodeRestriction looks into an informer that has not listed yet.
func (r *remover) remove(ctx context.Context, pod *corev1.Pod) {
	retry(ctx, pod, "Removing the object of a pod failed, will retry", func() error {
		err := r.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To[int64](0),
			Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
		})
		if (apierrors.IsNotFound(err) || apierrors.IsConflict(err)) && r.gone(pod) {
			return nil
		}
		return err
	})
}

// gone reports whether the watch knows no such pod any more.
func (r *remover) gone(pod *corev1.Pod) bool {
	known, err := r.lister.Pods(pod.Namespace).Get(pod.Name)
	return apierrors.IsNotFound(err) || err == nil && known.UID != pod.UID
}

// retry repeats the action until it succeeds or the context ends. That an
// object is another one than expected, or none, is no failure to tell of.
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

// removeStrangers removes the files of pods that the API server does not know:
// they were deleted while no podhost ran. What is not a pod's stays.
func (p *provider) removeStrangers(known map[types.UID]bool) error {
	for _, directory := range []string{p.runtime.Volumes.Base, p.runtime.LogDir} {
		uids, others, err := poddir.List(directory)
		if err != nil {
			return err
		}
		if len(others) > 0 {
			klog.FromContext(p.ctx).Info("Leaving files in place that no podhost made", "paths", others)
		}
		for _, uid := range uids {
			if known[uid] {
				continue
			}
			if err := poddir.Remove(directory, uid); err != nil {
				// It is in no pod's way, and the next podhost tries again.
				klog.FromContext(p.ctx).Error(err, "Removing the files of a deleted pod failed", "podUID", uid)
			}
		}
	}
	return nil
}
