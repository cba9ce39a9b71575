package podhost

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/podlife"
)

// goneGrace bounds the time that the processes of a pod may take to end after
// its object has gone: no goroutine waits for them any more.
const goneGrace = 2 * time.Second

// provider runs pods for virtual-kubelet's pod controller. Pods are told apart
// by their UIDs, so that one and its successor of the same name can coexist.
type provider struct {
	ctx     context.Context //nolint:containedctx // it bounds the work that outlives the calls
	runtime *podlife.Runtime
	lister  corev1listers.PodLister
	objects *objects
	remover *remover

	mu        sync.Mutex
	pods      map[types.UID]*podlife.Pod
	closing   bool
	notify    func(*corev1.Pod)
	finishing sync.WaitGroup
}

var (
	_ node.PodLifecycleHandler = (*provider)(nil)
	_ node.PodNotifier         = (*provider)(nil)
)

// NotifyPods sets who learns about changes of status.
func (p *provider) NotifyPods(_ context.Context, notify func(*corev1.Pod)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notify = notify
}

// publish passes a changed status on, unless the pod was replaced by another
// one of the same name, for which it would be taken.
func (p *provider) publish(pod *corev1.Pod) {
	p.mu.Lock()
	notify := p.notify
	p.mu.Unlock()
	current, err := p.lister.Pods(pod.Namespace).Get(pod.Name)
	if notify == nil || err != nil || current.UID != pod.UID {
		return
	}
	notify(pod)
}

// CreatePod starts a pod. It can be called again for the same pod. It never
// fails: what goes wrong with a pod is told in its status, and retried here.
func (p *provider) CreatePod(ctx context.Context, pod *corev1.Pod) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || p.pods[pod.UID] != nil {
		return nil
	}
	klog.FromContext(ctx).V(2).Info("Starting pod", "pod", klog.KObj(pod), "podUID", pod.UID)
	p.objects.register(pod)
	started := podlife.Start(p.runtime, pod) //nolint:contextcheck // the pod outlives this call
	p.pods[pod.UID] = started
	p.finishing.Go(func() { p.finish(started) })
	return nil
}

// UpdatePod hands a pod its new version.
func (p *provider) UpdatePod(_ context.Context, pod *corev1.Pod) error {
	if known := p.find(pod.UID); known != nil {
		p.objects.register(pod)
		known.Update(pod)
	}
	return nil
}

// DeletePod ends a pod within its grace period and returns at once. A pod that
// is being deleted and does not run here is removed from the API server: it
// ended while no podhost was there to see it.
func (p *provider) DeletePod(_ context.Context, pod *corev1.Pod) error {
	if known := p.find(pod.UID); known != nil {
		known.Terminate(deletionGrace(pod))
		return nil
	}
	if pod.DeletionTimestamp != nil {
		p.background(func() { p.remover.remove(p.ctx, pod) })
	}
	return errdefs.NotFoundf("pod %s/%s does not run here", pod.Namespace, pod.Name)
}

// gone ends a pod whose object does not exist any more.
func (p *provider) gone(pod *corev1.Pod) {
	if known := p.find(pod.UID); known != nil {
		known.Terminate(min(goneGrace, deletionGrace(pod)))
		return
	}
	p.background(func() { p.cleanUp(pod.UID) })
}

// GetPod returns the pod of that name that the API server knows. If it knows
// none it is one that still has to end.
func (p *provider) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	if current, err := p.lister.Pods(namespace).Get(name); err == nil {
		if known := p.find(current.UID); known != nil {
			return known.Snapshot(), nil
		}
		return nil, errdefs.NotFoundf("pod %s/%s does not run here", namespace, name)
	}
	for _, known := range p.all() {
		if pod := known.Snapshot(); pod.Namespace == namespace && pod.Name == name {
			return pod, nil
		}
	}
	return nil, errdefs.NotFoundf("pod %s/%s does not run here", namespace, name)
}

// GetPodStatus returns the status of a pod.
func (p *provider) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	pod, err := p.GetPod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

// GetPods returns all pods.
func (p *provider) GetPods(context.Context) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for _, known := range p.all() {
		pods = append(pods, known.Snapshot())
	}
	return pods, nil
}

// finish waits until a pod has ended, tells the API server how, and removes
// everything of it.
func (p *provider) finish(known *podlife.Pod) {
	<-known.Done()
	pod := known.Snapshot()
	p.objects.unregister(pod)
	if p.isClosing() {
		return // the pod is started again by the next podhost
	}
	p.cleanUp(pod.UID)
	p.remover.writeAndRemove(p.ctx, pod)
	if address := known.Address(); address.IsValid() {
		p.runtime.Addresses.Put(address)
	}
	p.mu.Lock()
	delete(p.pods, pod.UID)
	p.mu.Unlock()
}

// cleanUp removes the files of a pod.
func (p *provider) cleanUp(uid types.UID) {
	err := errors.Join(p.runtime.Volumes.Remove(uid), poddir.Remove(p.runtime.LogDir, uid))
	if err != nil {
		klog.FromContext(p.ctx).Error(err, "Removing the files of a pod failed", "podUID", uid)
	}
}

// close ends all pods' processes within the grace period and returns when they
// have ended. Their objects stay as they are.
func (p *provider) close(grace time.Duration) {
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

// background runs something that may take longer than its caller can wait.
func (p *provider) background(work func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closing {
		p.finishing.Go(work)
	}
}

func (p *provider) find(uid types.UID) *podlife.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pods[uid]
}

func (p *provider) all() []*podlife.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*podlife.Pod, 0, len(p.pods))
	for _, known := range p.pods {
		all = append(all, known)
	}
	return all
}

func (p *provider) isClosing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closing
}

// deletionGrace is how long the pod's processes may take to end.
func deletionGrace(pod *corev1.Pod) time.Duration {
	seconds := ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	if pod.DeletionGracePeriodSeconds != nil {
		seconds = *pod.DeletionGracePeriodSeconds
	}
	return time.Duration(seconds) * time.Second
}
