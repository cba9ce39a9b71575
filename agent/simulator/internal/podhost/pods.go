package podhost

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/secret"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/podlife"
)

// goneGrace bounds the time that a node may take to end after its pod's object has gone: nobody waits for it any more.
const goneGrace = 2 * time.Second

// pods runs what a watch says. Pods are told apart by their UIDs, so that one and its successor of the same name can coexist.
type pods struct {
	ctx     context.Context //nolint:containedctx // it bounds the work that outlives the calls
	runtime *podlife.Runtime
	lister  corev1listers.PodLister
	secrets secret.Manager
	writer  *statusWriter
	dir     *poddir.Directory

	mu        sync.Mutex
	known     map[types.UID]*podlife.Pod
	closing   bool
	finishing sync.WaitGroup
}

// follow has the pods of a watch run.
func (p *pods) follow(informer cache.SharedInformer) (cache.ResourceEventHandlerRegistration, error) {
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
	switch {
	case p.closing:
	case known != nil && isDeleted:
		known.Terminate(deletionGrace(pod))
	case known != nil:
		known.Update(pod)
	case isDeleted:
		p.finishing.Go(func() { p.writer.remove(p.ctx, pod) })
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
	default:
		klog.FromContext(p.ctx).V(2).Info("Starting pod", "pod", klog.KObj(pod), "podUID", pod.UID)
		p.secrets.RegisterPod(pod)
		started := podlife.Start(p.runtime, pod)
		p.known[pod.UID] = started
		p.finishing.Go(func() { p.finish(started) })
	}
}

// forget ends a pod whose object does not exist any more.
func (p *pods) forget(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.known[pod.UID]; known != nil {
		known.Terminate(min(goneGrace, deletionGrace(pod)))
	} else if !p.closing {
		p.finishing.Go(func() { p.cleanUp(pod.UID) })
	}
}

// finish waits until a pod has ended, tells the API server how, and removes everything of it.
func (p *pods) finish(known *podlife.Pod) {
	<-known.Done()
	pod := known.Snapshot()
	p.secrets.UnregisterPod(pod)
	if p.isClosing() {
		return // the pod is started again by the next podhost
	}
	p.cleanUp(pod.UID)
	p.writer.writeAndRemove(p.ctx, pod)
	if address := known.Address(); address.IsValid() {
		p.runtime.Addresses.Put(address)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, pod.UID)
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
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	all := p.all()
	for _, known := range all {
		known.Silence()
		known.Terminate(min(grace, deletionGrace(known.Snapshot())))
	}
	for _, known := range all {
		<-known.Done()
	}
}

// find returns the running pod of a name, if it is the one that the API server knows.
func (p *pods) find(namespace, name string) (*corev1.Pod, bool) {
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

func (p *pods) all() []*podlife.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*podlife.Pod, 0, len(p.known))
	for _, known := range p.known {
		all = append(all, known)
	}
	return all
}

func (p *pods) isClosing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closing
}

// deletionGrace is how long the pod's node may take to end.
func deletionGrace(pod *corev1.Pod) time.Duration {
	seconds := ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	if pod.DeletionGracePeriodSeconds != nil {
		seconds = *pod.DeletionGracePeriodSeconds
	}
	return time.Duration(seconds) * time.Second
}
