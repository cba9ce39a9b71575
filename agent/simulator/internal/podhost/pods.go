package podhost

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/util/pod"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/podlife"
)

const (
	// goneGrace bounds the time that a node may take to end after its pod's object has gone: no request waits for it.
	goneGrace = 2 * time.Second
	// statusWriters is how many statuses are written at once.
	statusWriters = 8
	// writeDelay collects the changes of a pod that come in one burst, such as those of a start.
	writeDelay = 100 * time.Millisecond
	// firstRetry and lastRetry bound the time between attempts to tell the API server about a pod.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// pods runs what a watch says. Pods are told apart by their UIDs, so that one and its successor of the same name can coexist.
type pods struct {
	ctx     context.Context //nolint:containedctx // it bounds the requests of goroutines
	runtime *podlife.Runtime
	client  kubernetes.Interface
	lister  corev1listers.PodLister
	dir     *poddir.Directory
	// changed has the pods of which the API server is to be told.
	changed workqueue.TypedRateLimitingInterface[types.UID]
	writers sync.WaitGroup
	// settled goes off when nothing was written for a while.
	settled *time.Timer

	mu      sync.Mutex
	known   map[types.UID]*knownPod
	closing bool
	running sync.WaitGroup
}

// knownPod is a pod of which the API server is to be told.
type knownPod struct {
	*podlife.Pod
	// written is the status that was written last, to which the next is compared. It is empty if that is not known to have arrived. What
	// others write is in neither.
	written corev1.PodStatus
	// ended says that the pod does not run and has no files, and that its object is to be removed.
	ended bool
}

func newChanged() workqueue.TypedRateLimitingInterface[types.UID] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](firstRetry, lastRetry))
}

// follow has the pods of a watch run.
func (p *pods) follow(informer cache.SharedInformer) (cache.ResourceEventHandlerRegistration, error) {
	for range statusWriters {
		p.writers.Go(p.writeStatuses)
	}
	return informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(added any) { p.observe(added.(*corev1.Pod)) },
		UpdateFunc: func(before, after any) {
			// A watch that was cut off notices only afterwards that a pod was replaced by another of the same name.
			if old := before.(*corev1.Pod); old.UID != after.(*corev1.Pod).UID {
				p.forget(old)
			}
			p.observe(after.(*corev1.Pod))
		},
		DeleteFunc: func(deleted any) {
			if tombstone, ok := deleted.(cache.DeletedFinalStateUnknown); ok {
				deleted = tombstone.Obj
			}
			if pod, ok := deleted.(*corev1.Pod); ok {
				p.forget(pod)
			}
		},
	})
}

// observe starts a pod, or hands a known one its new version. A pod that is being deleted and does not run here is removed from the API
// server: it ended while no podhost was there to see it.
func (p *pods) observe(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, isDeleted := p.known[pod.UID], pod.DeletionTimestamp != nil
	hasEnded := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case p.closing:
	case known != nil && isDeleted:
		known.Terminate(deletionGrace(pod))
	case known != nil:
		known.Update(pod)
	case isDeleted:
		p.known[pod.UID] = &knownPod{Pod: podlife.New(p.runtime, pod), written: pod.Status, ended: true}
		p.changed.Add(pod.UID)
	case !hasEnded:
		klog.FromContext(p.ctx).V(2).Info("Starting pod", "pod", klog.KObj(pod), "podUID", pod.UID)
		started := &knownPod{Pod: podlife.New(p.runtime, pod), written: pod.Status}
		p.known[pod.UID] = started
		p.running.Go(func() { p.run(pod.UID, started) })
	}
}

// run runs a pod until it has ended, and removes its files. One that ends with the podhost is started again by the next.
func (p *pods) run(uid types.UID, pod *knownPod) {
	pod.Run()
	p.mu.Lock()
	isClosing := p.closing
	p.mu.Unlock()
	if isClosing {
		return
	}
	p.cleanUp(uid)
	p.mu.Lock()
	pod.ended = true
	p.mu.Unlock()
	p.changed.Add(uid)
}

// forget ends a pod whose object does not exist any more.
func (p *pods) forget(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.known[pod.UID]; known != nil {
		known.Terminate(min(goneGrace, deletionGrace(pod)))
	} else if !p.closing {
		p.running.Go(func() { p.cleanUp(pod.UID) })
	}
}

// writeStatuses tells the API server about pods that have changed, until the podhost ends.
func (p *pods) writeStatuses() {
	for {
		uid, isShutDown := p.changed.Get()
		if isShutDown {
			return
		}
		p.mu.Lock()
		known := p.known[uid]
		var hasEnded bool
		if known != nil {
			hasEnded = known.ended
		}
		p.mu.Unlock()
		if known != nil && p.writeStatus(known, hasEnded) {
			p.changed.Forget(uid)
		} else if known != nil {
			p.changed.AddRateLimited(uid)
		}
		p.changed.Done(uid)
	}
}

// writeStatus writes what has changed of the pod's status, and removes the object of one that has ended. It reports whether it is done.
func (p *pods) writeStatus(known *knownPod, hasEnded bool) bool {
	pod := known.Snapshot()
	_, _, isUnchanged, err := podutil.PatchPodStatus(p.ctx, p.client, pod.Namespace, pod.Name, pod.UID, known.written, pod.Status)
	switch {
	case err == nil && !isUnchanged:
		known.written = pod.Status
		p.settled.Reset(settleTime)
	case err != nil:
		known.written = corev1.PodStatus{}
		klog.FromContext(p.ctx).V(2).Info("Writing the status of a pod failed", "pod", klog.KObj(pod), "err", err)
	}
	if !hasEnded {
		return err == nil
	}
	if err := p.remove(pod); err != nil {
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && p.ctx.Err() == nil {
			klog.FromContext(p.ctx).Error(err, "Removing the object of a pod failed, will retry", "pod", klog.KObj(pod))
		}
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, pod.UID)
	return true
}

// remove removes the pod's object, but not that of another pod of its name. That it is gone already is believed of the watch alone: an
// API server that has just started answers a node's deletion of any pod with NotFound, because NodeRestriction looks into an informer
// that has not listed yet.
func (p *pods) remove(pod *corev1.Pod) error {
	err := p.client.CoreV1().Pods(pod.Namespace).Delete(p.ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	known, listErr := p.lister.Pods(pod.Namespace).Get(pod.Name)
	if apierrors.IsNotFound(listErr) || listErr == nil && known.UID != pod.UID {
		return nil
	}
	return err
}

// cleanUp removes the files of a pod.
func (p *pods) cleanUp(uid types.UID) {
	if err := p.dir.Remove(uid); err != nil {
		klog.FromContext(p.ctx).Error(err, "Removing the files of a pod failed", "podUID", uid)
	}
}

// removeStrangers removes the files of pods that the API server does not know, which were deleted while no podhost ran, and those of
// packs. What has another name stays.
func (p *pods) removeStrangers(known []*corev1.Pod) error {
	there, others, err := p.dir.List()
	if err != nil {
		return err
	}
	if len(others) > 0 {
		klog.FromContext(p.ctx).Info("Leaving files in place that no podhost made", "paths", others)
	}
	for _, uid := range there {
		if !slices.ContainsFunc(known, func(pod *corev1.Pod) bool { return pod.UID == uid }) {
			p.cleanUp(uid) // What cannot be removed is in no pod's way, and the next podhost tries again.
		}
	}
	return nil
}

// close ends all nodes within the grace period and returns when they have ended. The objects of their pods stay as they are.
func (p *pods) close(grace time.Duration) {
	p.changed.ShutDown()
	p.writers.Wait()
	p.mu.Lock()
	p.closing = true
	for _, known := range p.known {
		known.Terminate(min(grace, deletionGrace(known.Snapshot())))
	}
	p.mu.Unlock()
	p.running.Wait()
}

// find returns the pod of a name, with its status as it is here if it is known here.
func (p *pods) find(namespace, name string) (pod *corev1.Pod, isKnown bool) {
	current, err := p.lister.Pods(namespace).Get(name)
	if err != nil {
		return nil, false
	}
	p.mu.Lock()
	known := p.known[current.UID]
	p.mu.Unlock()
	if known == nil {
		return current, false
	}
	return known.Snapshot(), true
}

// deletionGrace is how long the pod's node may take to end.
func deletionGrace(pod *corev1.Pod) time.Duration {
	seconds := ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	if pod.DeletionGracePeriodSeconds != nil {
		seconds = *pod.DeletionGracePeriodSeconds
	}
	return time.Duration(seconds) * time.Second
}
