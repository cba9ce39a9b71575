package podhost

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// guard is the client that virtual-kubelet's pod controller gets. The
// controller would delete the object of a pod when its grace period is over,
// or at once if none of its containers seems to run, without asking whether
// its processes have ended. The guard lets only those deletions through that
// concern pods which do not run here. The others are done when they have ended.
type guard struct {
	corev1client.PodsGetter
	provider *provider
	statuses *statusWriter
}

// Pods implements corev1client.PodsGetter.
func (g *guard) Pods(namespace string) corev1client.PodInterface {
	return &guardedPods{PodInterface: g.PodsGetter.Pods(namespace), guard: g, namespace: namespace}
}

type guardedPods struct {
	corev1client.PodInterface
	guard     *guard
	namespace string
}

// Delete makes sure that the pod is being ended, or deletes its object if it
// does not run here. A deletion without a UID could hit another pod of the
// same name and is not done.
func (g *guardedPods) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	if options.Preconditions == nil || options.Preconditions.UID == nil {
		return nil
	}
	known := g.guard.provider.find(*options.Preconditions.UID)
	if known == nil {
		return g.PodInterface.Delete(ctx, name, options)
	}
	pod, err := g.guard.provider.lister.Pods(g.namespace).Get(name)
	if err != nil || pod.UID != *options.Preconditions.UID {
		pod = known.Snapshot()
	}
	known.Terminate(deletionGrace(pod))
	return nil
}

// UpdateStatus writes a status without the parts of others.
func (g *guardedPods) UpdateStatus(ctx context.Context, pod *corev1.Pod, _ metav1.UpdateOptions) (*corev1.Pod, error) {
	return pod, g.guard.statuses.write(ctx, pod)
}

// watchIdentity covers what the pod controller's own event handler misses: a
// deletion that was only noticed after the connection had been lost, and a pod
// that was replaced by another of the same name meanwhile.
func watchIdentity(ctx context.Context, informer cache.SharedIndexInformer, p *provider) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			old, current := before.(*corev1.Pod), after.(*corev1.Pod)
			if old.UID == current.UID {
				return
			}
			p.gone(old)
			if ended := current.Status.Phase == corev1.PodSucceeded || current.Status.Phase == corev1.PodFailed; !ended && current.DeletionTimestamp == nil {
				// It never fails.
				_ = p.CreatePod(ctx, current)
			}
		},
		DeleteFunc: func(deleted any) {
			if tombstone, ok := deleted.(cache.DeletedFinalStateUnknown); ok {
				deleted = tombstone.Obj
			}
			if pod, ok := deleted.(*corev1.Pod); ok {
				p.gone(pod)
			}
		},
	})
	return err
}

// quietRecorder drops the pod controller's events about its own successes. The
// podhost's events tell what happens to containers.
type quietRecorder struct {
	record.EventRecorder
}

// Event implements record.EventRecorder.
func (r quietRecorder) Event(object runtime.Object, kind, reason, message string) {
	if kind == corev1.EventTypeNormal && strings.HasPrefix(reason, "Provider") {
		return
	}
	r.EventRecorder.Event(object, kind, reason, message)
}
