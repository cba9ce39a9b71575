// Package podlife runs the hollow node of one pod, from the check of the pod over restarts and probes to the end.
//
// A Pod is driven by goroutines of its own. Everything that is known about it is in its status, which is written whenever it changed.
package podlife

import (
	"context"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/address"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/hollowpod"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/packs"
)

const (
	// ReasonUnsupported is the reason of pods that are not hollow nodes as an agent makes them, and of the events about them.
	ReasonUnsupported = "Unsupported"
	// ReasonImageUnknown is the reason of pods with an unknown image. The kubelet uses the same if an image is missing and must not be pulled.
	ReasonImageUnknown = "ErrImageNeverPull"

	// firstRetry and lastRetry bound the time between attempts at something that may succeed later.
	firstRetry = 250 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// Runtime is what all pods of a podhost have in common.
type Runtime struct {
	// Namespace is the one whose pods run.
	Namespace string
	Images    hollowpod.Images
	Packs     *packs.Launcher
	Addresses *address.Pool
	Files     *Files
	// LogLimit bounds a log file in bytes.
	LogLimit int64
	Backoff  Backoff
	// RefreshPeriod is the time between two looks at the pods' Secrets.
	RefreshPeriod time.Duration
	Recorder      record.EventRecorder
	// Write writes the pod's status. Calls for one pod do not overlap.
	Write func(context.Context, *corev1.Pod) error
}

// Pod is one pod that runs, or is about to.
type Pod struct {
	runtime *Runtime
	stop    *stopper
	// done is closed when the node has ended for good.
	done chan struct{}
	// dirty and changed wake the goroutines of the pod, and restart takes the order to end the node and start it again.
	dirty, readmit, refresh chan struct{}
	restart                 chan order
	startTime               metav1.Time
	// preferred is the address that the pod had before.
	preferred string
	backoff   backoff
	// writing ends with the pod, and when it is silenced. Writer is the goroutine that writes the status.
	writing context.Context //nolint:containedctx // it bounds the requests of a goroutine
	silence context.CancelFunc
	writer  sync.WaitGroup

	mu   sync.Mutex
	pod  *corev1.Pod // of a cache, never changed; its status is kept below
	node hollowpod.Node
	// container is the status of the node's container.
	container       corev1.ContainerStatus
	status          corev1.PodStatus
	admitted, ended bool
	ip              netip.Addr
	// reason and message explain a pod that is refused.
	reason, message string
}

// Start runs a pod. Its status tells what an earlier podhost did for it.
func Start(runtime *Runtime, pod *corev1.Pod) *Pod {
	p := &Pod{
		runtime: runtime,
		stop:    newStopper(),
		done:    make(chan struct{}),
		dirty:   make(chan struct{}, 1), readmit: make(chan struct{}, 1), refresh: make(chan struct{}, 1), restart: make(chan order, 1),
		startTime: metav1.Now().Rfc3339Copy(),
		preferred: pod.Status.PodIP,
		backoff:   backoff{policy: runtime.Backoff},
		pod:       pod,
		container: restore(pod),
		status:    *pod.Status.DeepCopy(),
	}
	p.writing, p.silence = context.WithCancel(context.Background())
	if pod.Status.StartTime != nil {
		p.startTime = *pod.Status.StartTime
	}
	p.writer.Go(p.writeStatuses)
	go p.run()
	return p
}

// Done is closed when the node has ended for good. That is the case only after Terminate was called.
func (p *Pod) Done() <-chan struct{} { return p.done }

// Terminate ends the node within the grace period. A repeated call can shorten the period.
func (p *Pod) Terminate(grace time.Duration) { p.stop.request(grace) }

// Silence keeps the pod from writing its status, and from events, from now on.
func (p *Pod) Silence() {
	p.silence()
	p.writer.Wait()
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

// run takes the pod through its life. A pod that cannot run stays until it is terminated.
func (p *Pod) run() {
	defer close(p.done)
	if p.admit() && p.prepare() {
		var refreshing sync.WaitGroup
		refreshing.Go(p.refreshFiles)
		p.runNode()
		refreshing.Wait()
	}
	<-p.stop.requested
	p.change(func() { p.ended = true })
	p.silence()
	p.writer.Wait()
}

// check returns the node of a pod, or the reason and the message why it does not run.
func (p *Pod) check(pod *corev1.Pod) (node hollowpod.Node, reason, message string) {
	node, refusals := hollowpod.Read(pod, p.runtime.Namespace)
	if len(refusals) > 0 {
		return node, ReasonUnsupported, refusals.String()
	}
	if _, err := p.runtime.Images.Find(node.Image); err != nil {
		return node, ReasonImageUnknown, err.Error()
	}
	return node, "", ""
}

// admit waits until the pod can run. One that cannot stays pending: if it failed, whoever made it would make another one, without end.
// It returns false if the pod was terminated instead.
func (p *Pod) admit() bool {
	for {
		node, reason, message := p.check(p.Snapshot())
		p.change(func() {
			p.node, p.admitted, p.reason, p.message = node, reason == "", reason, message
			p.container.Image = node.Image
		})
		if reason == "" {
			return true
		}
		p.warn(reason, message)
		select {
		case <-p.stop.requested:
			return false
		case <-p.readmit:
		}
	}
}

// Update takes a new version of the pod. A new image restarts the node. A change that cannot be honoured is refused with an event, and
// the node continues as it is.
func (p *Pod) Update(pod *corev1.Pod) {
	node, reason, message := p.check(pod)
	p.change(func() {
		p.pod = pod
		if !p.admitted || reason != "" {
			return
		}
		changed := node.Image != p.node.Image
		p.node = node
		if changed && p.hasRun() {
			p.orderRestart(order{"Container " + hollowpod.ContainerName + " definition changed, will be restarted", node.Grace})
		}
	})
	p.mu.Lock()
	admitted := p.admitted
	p.mu.Unlock()
	if admitted && reason != "" {
		p.warn(reason, message)
	}
	wake(p.readmit)
	wake(p.refresh)
}

// prepare gives the pod an address and its files. It returns false if the pod was terminated before that was possible.
func (p *Pod) prepare() bool {
	gotAddress := p.retry("FailedCreatePodSandBox", func() error {
		ip, err := p.runtime.Addresses.Get(p.preferred)
		if err == nil {
			p.change(func() { p.ip = ip })
		}
		return err
	})
	return gotAddress && p.retry("FailedMount", func() error {
		return p.runtime.Files.Prepare(p.Snapshot())
	})
}

// refreshFiles keeps the files up to date until the pod is terminated.
func (p *Pod) refreshFiles() {
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
		message := ""
		if err := p.runtime.Files.Prepare(p.Snapshot()); err != nil {
			message = err.Error()
		}
		if message != "" && message != last {
			p.warn("FailedMount", message)
		}
		last = message
	}
}

// retry repeats an action until it succeeds or the pod is terminated.
func (p *Pod) retry(eventReason string, action func() error) bool {
	last := ""
	for delay := firstRetry; !p.stop.isRequested(); delay = min(2*delay, lastRetry) {
		err := action()
		if err == nil {
			return true
		}
		if err.Error() != last {
			last = err.Error()
			p.warn(eventReason, last)
		}
		select {
		case <-p.stop.requested:
		case <-time.After(delay):
		}
	}
	return false
}

func wake(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}
