package podlife

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/process"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/support"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/volume"
)

// Pod is one pod that runs, or is about to.
type Pod struct {
	runtime *Runtime
	stop    *stopper
	// done is closed when every process of the pod has ended for good.
	done chan struct{}
	// dirty, readmit and refresh wake the goroutines of the pod. Each holds at
	// most one wake-up.
	dirty, readmit, refresh chan struct{}
	startTime               metav1.Time
	initial, regular        []*container

	mu       sync.Mutex
	pod      *corev1.Pod // its status is kept in the next field
	status   corev1.PodStatus
	admitted bool
	ended    bool
	silent   bool
	ip       netip.Addr
	// reason and message explain a pod that is refused.
	reason, message string
	// publishing is held while a status is handed out.
	publishing sync.Mutex
}

// Start runs a pod. Its status tells what an earlier podhost did for it.
func Start(runtime *Runtime, pod *corev1.Pod) *Pod {
	p := &Pod{
		runtime:   runtime,
		stop:      newStopper(),
		done:      make(chan struct{}),
		dirty:     make(chan struct{}, 1),
		readmit:   make(chan struct{}, 1),
		refresh:   make(chan struct{}, 1),
		startTime: metav1.Now().Rfc3339Copy(),
		pod:       pod.DeepCopy(),
		status:    *pod.Status.DeepCopy(),
	}
	if pod.Status.StartTime != nil {
		p.startTime = *pod.Status.StartTime
	}
	for i := range pod.Spec.InitContainers {
		p.initial = append(p.initial, newContainer(p, &pod.Spec.InitContainers[i], true, pod.Status.InitContainerStatuses, "PodInitializing"))
	}
	waiting := "ContainerCreating"
	if len(p.initial) > 0 {
		waiting = "PodInitializing"
	}
	for i := range pod.Spec.Containers {
		p.regular = append(p.regular, newContainer(p, &pod.Spec.Containers[i], false, pod.Status.ContainerStatuses, waiting))
	}
	go p.publish()
	go p.run()
	return p
}

// Done is closed when every process of the pod has ended for good. That is
// the case only after Terminate was called.
func (p *Pod) Done() <-chan struct{} { return p.done }

// Terminate ends the pod's processes within the grace period. A repeated call
// can shorten the period.
func (p *Pod) Terminate(grace time.Duration) { p.stop.request(grace) }

// Silence keeps the pod from publishing its status and events from now on.
func (p *Pod) Silence() {
	p.mu.Lock()
	p.silent = true
	p.mu.Unlock()
	// Wait for a publication that is under way.
	p.publishing.Lock()
	defer p.publishing.Unlock()
}

// Address returns the pod's address, or the zero address.
func (p *Pod) Address() netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ip
}

// Snapshot returns a copy of the pod with its current status.
func (p *Pod) Snapshot() *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	snapshot := p.pod.DeepCopy()
	snapshot.Status = *p.status.DeepCopy()
	return snapshot
}

// run takes the pod through its life. A pod that is complete, or cannot run,
// stays until it is terminated.
func (p *Pod) run() {
	defer close(p.done)
	if p.admit() && p.prepare() {
		var refreshing sync.WaitGroup
		refreshing.Go(p.refreshVolumes)
		if p.runInitial() {
			p.runRegular()
		}
		<-p.stop.requested
		refreshing.Wait()
	}
	<-p.stop.requested
	p.change(func() { p.ended = true })
}

// prepare gives the pod an address and its volumes. It returns false if the
// pod was terminated before that was possible.
func (p *Pod) prepare() bool {
	gotAddress := p.retry("FailedCreatePodSandBox", func() error {
		ip, err := p.runtime.Addresses.Get(p.Snapshot().Status.PodIP)
		if err == nil {
			p.change(func() { p.ip = ip })
		}
		return err
	})
	return gotAddress && p.retry("FailedMount", func() error {
		pod := p.Snapshot()
		return p.runtime.Volumes.Prepare(pod, p.owner(pod))
	})
}

// owner returns the user to whom the pod's files belong.
func (p *Pod) owner(pod *corev1.Pod) volume.Owner {
	var owner volume.Owner
	for i, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		identity := p.identity(pod, &c)
		own := volume.Owner{Change: identity.SwitchUser && identity.UID != p.runtime.Host.UID, UID: identity.UID, GID: identity.GID}
		if i > 0 && own != owner {
			return volume.Owner{Shared: true}
		}
		owner = own
	}
	return owner
}

// identity returns the user and privileges of a container.
func (p *Pod) identity(pod *corev1.Pod, container *corev1.Container) process.Identity {
	// The spec was admitted, which includes that its user can be honoured.
	identity, _ := support.Identity(pod, container, p.runtime.Host)
	return identity
}

func (p *Pod) runInitial() bool {
	for _, c := range p.initial {
		if !c.run() {
			return false
		}
	}
	return true
}

func (p *Pod) runRegular() {
	var running sync.WaitGroup
	for _, c := range p.regular {
		running.Go(func() { c.run() })
	}
	running.Wait()
}

// refreshVolumes keeps the volumes up to date until the pod is terminated.
func (p *Pod) refreshVolumes() {
	ticker := time.NewTicker(p.runtime.RefreshPeriod)
	defer ticker.Stop()
	last := ""
	for {
		select {
		case <-p.stop.requested:
			return
		case <-ticker.C:
		case <-p.refresh:
		}
		pod := p.Snapshot()
		err := p.runtime.Volumes.Refresh(pod, p.owner(pod))
		if err != nil && err.Error() != last {
			p.warn("FailedMount", err.Error())
		}
		last = fmt.Sprint(err)
	}
}

// retry repeats an action until it succeeds or the pod is terminated.
func (p *Pod) retry(eventReason string, action func() error) bool {
	last := ""
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		if p.stop.isRequested() {
			return false
		}
		err := action()
		if err == nil {
			return true
		}
		if err.Error() != last {
			last = err.Error()
			p.warn(eventReason, last)
		}
		if !p.pause(delay) {
			return false
		}
	}
}

// pause waits. It returns false as soon as the pod is terminated.
func (p *Pod) pause(delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-p.stop.requested:
		return false
	case <-timer.C:
		return true
	}
}

func (p *Pod) containers() []*container {
	return slices.Concat(p.initial, p.regular)
}

func wake(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}
