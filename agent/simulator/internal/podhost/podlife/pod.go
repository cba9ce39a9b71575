// Package podlife runs the hollow node of one pod, from the check of the pod over restarts and probes to the end.
package podlife

import (
	"math"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/address"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/hollowpod"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/packs"
)

const (
	// ReasonUnsupported is the reason of pods that are not hollow nodes as an agent makes them, and of the events about them.
	ReasonUnsupported = "Unsupported"
	// ReasonImageUnknown is the reason of pods with an unknown image. The kubelet uses the same if an image is missing and must not be pulled.
	ReasonImageUnknown = "ErrImageNeverPull"

	// firstRetry and lastRetry bound the time between attempts to make the files of a pod.
	firstRetry = 250 * time.Millisecond
	lastRetry  = 10 * time.Second
	// readyRefresh is by how much longer the Secret of a ready pod is not read again: it has joined, and needs no new bootstrap token.
	readyRefresh = 15
)

// Runtime is what all pods of a podhost have in common.
type Runtime struct {
	// Namespace is the one whose pods run.
	Namespace string
	Images    hollowpod.Images
	Packs     *packs.Launcher
	Addresses *address.Range
	Files     *Files
	// LogLimit bounds a log file in bytes.
	LogLimit int64
	// FirstBackoff is how long a node waits for its second restart, and LastBackoff the longest wait. The first restart is immediate.
	FirstBackoff, LastBackoff time.Duration
	// RefreshPeriod is the time between two looks at the Secret of a pod that is not ready.
	RefreshPeriod time.Duration
	Recorder      record.EventRecorder
	// Ending is closed when the podhost ends.
	Ending <-chan struct{}
	// Changed is called whenever the status of a pod may have changed.
	Changed func(types.UID)
}

// Pod is one pod that runs, or is about to.
type Pod struct {
	runtime *Runtime
	// ending is closed when the node is to end for good, and killing when the time that it may take is over.
	ending, killing chan struct{}
	end, kill       func()
	// updated says that the plan has changed, and restart takes the failed probe for which the node is to end and start again.
	updated chan struct{}
	restart chan string
	backoff *flowcontrol.Backoff

	node hollowpod.Node
	// reason and message explain a pod that is refused.
	reason, message string

	mu  sync.Mutex
	pod *corev1.Pod // of a cache, never changed; its status is kept below
	// container is the status of the node's container.
	container corev1.ContainerStatus
	status    corev1.PodStatus
	ended     bool
	ip        net.IP
}

// New returns a pod that does not run yet. Its status tells what an earlier podhost did for it.
func New(runtime *Runtime, pod *corev1.Pod) *Pod {
	p := &Pod{
		runtime: runtime,
		ending:  make(chan struct{}), killing: make(chan struct{}), updated: make(chan struct{}, 1), restart: make(chan string, 1),
		backoff:   flowcontrol.NewBackOff(runtime.FirstBackoff, runtime.LastBackoff),
		pod:       pod,
		container: restore(pod),
		status:    *pod.Status.DeepCopy(),
	}
	p.check()
	p.end, p.kill = sync.OnceFunc(func() { close(p.ending) }), sync.OnceFunc(func() { close(p.killing) })
	return p
}

// Terminate ends the node within the grace period. A repeated call can shorten the period.
func (p *Pod) Terminate(grace time.Duration) {
	p.end()
	time.AfterFunc(grace, p.kill)
}

func (p *Pod) isEnding() bool {
	select {
	case <-p.ending:
		return true
	default:
		return false
	}
}

// Snapshot returns a copy of the pod with its current status.
func (p *Pod) Snapshot() *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	snapshot := p.pod.DeepCopy()
	snapshot.Status = *p.status.DeepCopy()
	return snapshot
}

// Update takes a new version of the pod. Of what the podhost uses of a pod only the plan of disruptions can change: for anything else an
// agent makes another pod.
func (p *Pod) Update(pod *corev1.Pod) {
	p.mu.Lock()
	before := p.pod
	p.pod = pod
	p.mu.Unlock()
	if before.Generation != pod.Generation {
		p.change(func() {})
	}
	if hollowpod.Plan(before) == hollowpod.Plan(pod) {
		return
	}
	select {
	case p.updated <- struct{}{}:
	default:
	}
}

// Run takes the pod through its life, until the node has ended for good after Terminate. A pod that cannot run stays pending until then: if
// it failed, its owner would make another one, without end.
func (p *Pod) Run() {
	p.change(func() {})
	if p.reason == "" {
		p.runPrepared()
	} else {
		p.warn(p.reason, p.message)
	}
	<-p.ending
	p.change(func() { p.ended = true })
	if p.ip != nil {
		p.runtime.Addresses.Release(p.ip)
	}
}

// check reads the node of the pod, or why it does not run.
func (p *Pod) check() {
	var refusals hollowpod.Refusals
	if p.node, refusals = hollowpod.Read(p.pod, p.runtime.Namespace); len(refusals) > 0 {
		p.reason, p.message = ReasonUnsupported, refusals.String()
		return
	}
	var err error
	if p.node.Directory, err = p.runtime.Images.Find(p.node.Image); err != nil {
		p.reason, p.message = ReasonImageUnknown, err.Error()
	}
	p.container.Image = p.node.Image
}

// runPrepared runs the node while its files are kept up to date.
func (p *Pod) runPrepared() {
	var keeping sync.WaitGroup
	defer keeping.Wait()
	prepared := make(chan struct{})
	keeping.Go(func() { p.keepFiles(sync.OnceFunc(func() { close(prepared) })) })
	select {
	case <-prepared:
		p.runNode()
	case <-p.ending:
	}
}

// keepFiles makes the pod's files, and keeps them up to date until the pod is terminated.
func (p *Pod) keepFiles(prepared func()) {
	for last, retry := "", newRetry(); ; {
		var message string
		var delay time.Duration
		if err := p.prepare(); err != nil {
			message, delay = err.Error(), retry.Step()
		} else {
			prepared()
			retry, delay = newRetry(), p.refreshDelay()
		}
		if message != "" && message != last {
			p.warn("FailedMount", message)
		}
		last = message
		select {
		case <-p.ending:
			return
		case <-p.updated:
		case <-time.After(delay):
		}
	}
}

func newRetry() *wait.Backoff {
	return &wait.Backoff{Duration: firstRetry, Factor: 2, Cap: lastRetry, Steps: math.MaxInt32}
}

func (p *Pod) refreshDelay() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.container.Ready {
		return readyRefresh * p.runtime.RefreshPeriod
	}
	return p.runtime.RefreshPeriod
}

// prepare gives the pod an address, that which it had if it is free, and its files.
func (p *Pod) prepare() error {
	if p.ip == nil {
		ip, err := p.runtime.Addresses.Allocate(p.Snapshot().Status.PodIP)
		if err != nil {
			return err
		}
		p.change(func() { p.ip = ip })
	}
	return p.runtime.Files.Prepare(p.Snapshot())
}

// change applies a change and has the resulting status written.
func (p *Pod) change(apply func()) {
	p.mu.Lock()
	apply()
	p.computeStatus(metav1.Now().Rfc3339Copy())
	uid := p.pod.UID
	p.mu.Unlock()
	p.runtime.Changed(uid)
}
