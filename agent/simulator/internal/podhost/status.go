package podhost

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/podstatus"
)

// statusWriter writes the statuses of pods to the API server.
type statusWriter struct {
	client kubernetes.Interface
	lister corev1listers.PodLister

	mu sync.Mutex
	// written holds the last version of each pod that a write returned. The
	// cache behind the lister may not have it yet.
	written map[types.UID]*corev1.Pod
}

func newStatusWriter(client kubernetes.Interface, lister corev1listers.PodLister) *statusWriter {
	return &statusWriter{client: client, lister: lister, written: make(map[types.UID]*corev1.Pod)}
}

// write writes the pod's status if it differs from the API server's. It is an
// update that names the version it is based on, so a version that is too old
// leads to a conflict and not to a wrong status. The pod that is gone, or was
// replaced by another of the same name, is left alone.
func (w *statusWriter) write(ctx context.Context, pod *corev1.Pod) error {
	base, err := w.base(pod)
	if err != nil {
		return err
	}
	if base.UID != pod.UID {
		return nil
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
	w.mu.Lock()
	w.written[pod.UID] = updated
	w.mu.Unlock()
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
	if written := w.written[pod.UID]; written != nil && cached.UID == pod.UID && newer(written, cached) {
		return written, nil
	}
	return cached, nil
}

func (w *statusWriter) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.written, uid)
}

// newer compares versions of one pod. The API guarantees that those of one
// resource are numbers that grow.
func newer(a, b *corev1.Pod) bool {
	versionA, errA := strconv.ParseUint(a.ResourceVersion, 10, 64)
	versionB, errB := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return errA == nil && errB == nil && versionA > versionB
}
