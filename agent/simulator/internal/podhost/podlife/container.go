package podlife

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/backoff"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/process"
)

// startFailed is the exit code of a container whose program could not be started.
const startFailed = 128

// container is one container of a pod. Its spec and status are guarded by the
// pod's lock.
type container struct {
	pod     *Pod
	initial bool
	// idle is the reason for which the container waits before it ever ran.
	idle   string
	spec   corev1.Container
	status corev1.ContainerStatus
	// restart takes the order to end the running process and start another.
	restart chan order
	backoff backoff.Backoff
}

// order says why a process is ended and how long it may take.
type order struct {
	why   string
	grace time.Duration
}

// newContainer takes up the container where an earlier podhost left it.
func newContainer(p *Pod, spec *corev1.Container, initial bool, previous []corev1.ContainerStatus, idle string) *container {
	c := &container{
		pod:     p,
		initial: initial,
		idle:    idle,
		spec:    *spec.DeepCopy(),
		restart: make(chan order, 1),
		backoff: backoff.Backoff{Policy: p.runtime.Backoff},
	}
	c.status = corev1.ContainerStatus{
		Name:    spec.Name,
		Image:   spec.Image,
		Started: ptr.To(false),
		State:   corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: idle}},
	}
	for i := range previous {
		if previous[i].Name == spec.Name {
			c.restore(&previous[i], p.pod.Spec.RestartPolicy)
		}
	}
	return c
}

// restore continues from the status that an earlier podhost left. A container
// that ran has ended with that podhost: how is not known.
func (c *container) restore(previous *corev1.ContainerStatus, policy corev1.RestartPolicy) {
	c.status.RestartCount = previous.RestartCount
	c.status.LastTerminationState = previous.LastTerminationState
	c.status.ContainerID, c.status.ImageID = previous.ContainerID, previous.ImageID
	var ended *corev1.ContainerStateTerminated
	switch {
	case previous.State.Terminated != nil:
		ended = previous.State.Terminated
	case previous.State.Running != nil:
		ended = &corev1.ContainerStateTerminated{
			ExitCode:    137,
			Reason:      "ContainerStatusUnknown",
			Message:     "the podhost ended while the container ran",
			StartedAt:   previous.State.Running.StartedAt,
			FinishedAt:  metav1.Now().Rfc3339Copy(),
			ContainerID: previous.ContainerID,
		}
	default:
		return
	}
	if c.final(ended.ExitCode, policy) {
		c.status.State = corev1.ContainerState{Terminated: ended}
		c.status.Ready = c.initial && ended.ExitCode == 0
		return
	}
	c.status.LastTerminationState = corev1.ContainerState{Terminated: ended}
}

// final reports whether a container that ended with this code is not restarted.
func (c *container) final(code int32, policy corev1.RestartPolicy) bool {
	switch {
	case policy == corev1.RestartPolicyNever:
		return true
	case policy == corev1.RestartPolicyOnFailure || c.initial:
		return code == 0
	}
	return false
}

// run runs the container with all its restarts. It returns true if it ended
// with success and is not restarted.
func (c *container) run() bool {
	if ended := c.state().Terminated; ended != nil {
		return ended.ExitCode == 0
	}
	for {
		began := time.Now()
		code, ran := c.runOnce()
		if !ran || c.pod.stop.isRequested() {
			return false
		}
		if c.final(code, c.pod.restartPolicy()) {
			return code == 0
		}
		if delay := c.backoff.Next(time.Since(began)); delay > 0 && !c.backOff(delay) {
			return false
		}
	}
}

// backOff waits before a restart. It returns false if the pod was terminated.
func (c *container) backOff(delay time.Duration) bool {
	message := fmt.Sprintf("back-off %s restarting failed container %s", delay, c.status.Name)
	c.pod.change(func() {
		c.status.LastTerminationState = c.status.State
		c.status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: message}}
	})
	c.pod.warn("BackOff", message)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-c.pod.stop.requested:
		return false
	case <-c.restart: // a new image: try it at once
	case <-timer.C:
	}
	return true
}

// runOnce runs the container's process until it ends. It returns false if none
// was started because the pod was terminated.
func (c *container) runOnce() (code int32, ran bool) {
	var launch *launch
	if !c.configure(func() (err error) { launch, err = c.pod.launch(c); return err }) {
		return 0, false
	}
	running, err := launch.start()
	if err != nil {
		c.pod.warn("Failed", fmt.Sprintf("starting container %s: %v", c.status.Name, err))
		c.recordEnd(corev1.ContainerStateTerminated{
			ExitCode: startFailed, Reason: "StartError", Message: err.Error(), FinishedAt: metav1.Now().Rfc3339Copy(),
		}, launch)
		return startFailed, true
	}
	c.recordStart(running.process, launch)
	c.pod.inform("Started", "Started container "+c.status.Name)
	c.supervise(running, launch)
	running.close()
	c.forgetOrders()

	exit := running.process.Exit()
	c.recordEnd(terminated(running.process, exit, launch), launch)
	return int32(exit.Code), true
}

// configure retries what depends on objects that may not be there yet.
func (c *container) configure(build func() error) bool {
	return c.pod.retry("Failed", func() error {
		err := build()
		if err == nil {
			return nil
		}
		c.pod.change(func() {
			if c.status.State.Terminated != nil {
				c.status.LastTerminationState = c.status.State
			}
			c.status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "CreateContainerConfigError", Message: err.Error(),
			}}
		})
		return fmt.Errorf("configuring container %s: %w", c.status.Name, err)
	})
}

// supervise waits until the process has ended, and ends it when ordered to.
func (c *container) supervise(running *running, launch *launch) {
	stopProbes := c.startProbes(launch)
	defer stopProbes()
	own := newStopper()
	select {
	case <-running.process.Done():
		return
	case <-c.pod.stop.requested:
		deadline, _ := c.pod.stop.current()
		own.request(time.Until(deadline))
		c.pod.inform("Killing", "Stopping container "+c.status.Name)
	case order := <-c.restart:
		own.request(order.grace)
		c.pod.inform("Killing", order.why)
	}
	stopProbes()
	c.pod.change(func() { c.status.Ready = false })
	terminate(running.process, own, c.pod.stop)
}

func (c *container) recordStart(p process.Running, launch *launch) {
	c.pod.change(func() {
		launch.describe(&c.status)
		c.status.RestartCount = launch.attempt
		if c.status.State.Terminated != nil {
			c.status.LastTerminationState = c.status.State
		}
		c.status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(p.StartedAt()).Rfc3339Copy()}}
		c.status.Started = ptr.To(launch.container.StartupProbe == nil)
		c.status.Ready = !c.initial && *c.status.Started && launch.container.ReadinessProbe == nil
	})
}

func (c *container) recordEnd(ended corev1.ContainerStateTerminated, launch *launch) {
	c.pod.change(func() {
		launch.describe(&c.status)
		c.status.RestartCount = launch.attempt
		ended.ContainerID = c.status.ContainerID
		if c.status.State.Terminated != nil {
			c.status.LastTerminationState = c.status.State
		}
		c.status.State = corev1.ContainerState{Terminated: &ended}
		c.status.Started = ptr.To(false)
		c.status.Ready = c.initial && ended.ExitCode == 0
	})
}

func (c *container) state() corev1.ContainerState {
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	return *c.status.State.DeepCopy()
}

// attempt returns the number of the next run, counted from 0.
func (c *container) attempt() int32 {
	if c.status.State.Terminated == nil && c.status.LastTerminationState.Terminated == nil {
		return 0
	}
	return c.status.RestartCount + 1
}

// refuse and unrefuse set why a container that never ran waits. The caller
// holds the pod's lock.
func (c *container) refuse(reason, message string) {
	c.wait(reason, message)
}

func (c *container) unrefuse() { c.wait(c.idle, "") }

func (c *container) wait(reason, message string) {
	if c.status.State.Waiting != nil {
		c.status.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
	}
}

// adopt takes a new spec. The caller holds the pod's lock.
func (c *container) adopt(spec *corev1.Container) {
	changed := spec.Image != c.spec.Image
	c.spec = *spec.DeepCopy()
	if c.status.State.Running == nil {
		c.status.Image = spec.Image
	}
	if changed && (c.status.State.Running != nil || c.status.LastTerminationState.Terminated != nil) {
		c.order(fmt.Sprintf("Container %s definition changed, will be restarted", spec.Name), gracePeriod(c.pod.pod))
	}
}

// order has the running process ended, unless that was ordered already.
func (c *container) order(why string, grace time.Duration) {
	select {
	case c.restart <- order{why: why, grace: grace}:
	default:
	}
}

// forgetOrders drops an order that came too late for the process it was meant for.
func (c *container) forgetOrders() {
	select {
	case <-c.restart:
	default:
	}
}

func (p *Pod) restartPolicy() corev1.RestartPolicy {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pod.Spec.RestartPolicy
}

// gracePeriod is how long the pod's processes may take to end.
func gracePeriod(pod *corev1.Pod) time.Duration {
	return time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)) * time.Second
}
