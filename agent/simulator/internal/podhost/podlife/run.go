package podlife

import (
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/hollowpod"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/logfile"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/packs"
)

// startFailed is the exit code of a container whose program could not be started.
const startFailed = 128

// order says why a node is ended that starts again, and how long it may take.
type order struct {
	why   string
	grace time.Duration
}

// runNode runs the node, again and again, until the pod is terminated.
func (p *Pod) runNode() {
	for !p.stop.isRequested() {
		began := time.Now()
		p.runOnce()
		if delay := p.backoff.next(time.Since(began)); delay > 0 && !p.stop.isRequested() {
			p.backOff(delay)
		}
	}
}

// backOff waits before a restart.
func (p *Pod) backOff(delay time.Duration) {
	message := fmt.Sprintf("back-off %s restarting failed container %s", delay, hollowpod.ContainerName)
	p.change(func() {
		p.container.LastTerminationState = p.container.State
		p.container.State = waiting("CrashLoopBackOff", message)
	})
	p.warn("BackOff", message)
	select {
	case <-p.stop.requested:
	case <-p.restart: // a new image: try it at once
	case <-time.After(delay):
	}
}

// runOnce runs the node until it ends.
func (p *Pod) runOnce() {
	p.mu.Lock()
	pod, node, attempt := p.pod, p.node, p.attempt() // A pod is replaced, never changed.
	p.mu.Unlock()
	directory, err := p.runtime.Images.Find(node.Image)
	if err != nil {
		p.recordStartError(err, attempt)
		return
	}
	describe := func() {
		p.container.Image, p.container.ImageID, p.container.RestartCount = node.Image, "podhost://"+directory, attempt
		p.container.ContainerID = fmt.Sprintf("podhost://%s_%s_%d", pod.UID, hollowpod.ContainerName, attempt)
	}
	if attempt > 1 {
		logfile.Remove(p.runtime.Files.Log(pod.UID, attempt-2)) // Only the log of the run before is asked for.
	}
	log, err := logfile.Create(p.runtime.Files.Log(pod.UID, attempt), p.runtime.LogLimit)
	if err == nil {
		defer log.Close()
		p.change(describe) // Its log can be read while it starts.
		err = p.startAndSupervise(node, packs.Spec{
			Name: pod.Namespace + "/" + pod.Name, Image: directory, Args: p.runtime.Files.Args(pod, node, p.Address()), Log: log,
		})
	}
	if err != nil {
		p.recordStartError(err, attempt)
	}
}

// startAndSupervise starts the node and returns when it has ended. The error says that it did not start.
func (p *Pod) startAndSupervise(node hollowpod.Node, spec packs.Spec) error {
	running, err := p.runtime.Packs.Start(spec)
	if err != nil {
		return err
	}
	startedAt := metav1.Now().Rfc3339Copy()
	p.change(func() {
		p.endState(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: startedAt}})
		p.container.Started = ptr.To(node.Startup == nil)
		p.container.Ready = *p.container.Started && node.Readiness == nil
	})
	p.inform("Started", "Started container "+hollowpod.ContainerName)
	p.supervise(running, node)
	select {
	case <-p.restart: // It came too late for the run that it was meant for.
	default:
	}
	exit := running.Exit()
	ended := corev1.ContainerStateTerminated{
		ExitCode: int32(exit.Code), Signal: int32(exit.Signal), Reason: "Completed",
		StartedAt: startedAt, FinishedAt: metav1.NewTime(exit.At).Rfc3339Copy(),
	}
	if exit.Code != 0 {
		ended.Reason = "Error"
	}
	p.recordEnd(ended)
	return nil
}

// supervise waits until the node has ended, and ends it when ordered to.
func (p *Pod) supervise(running *packs.Node, node hollowpod.Node) {
	stopProbes := p.startProbes(node)
	defer stopProbes()
	var grace time.Duration
	select {
	case <-running.Done():
		return
	case <-p.stop.requested:
		deadline, _ := p.stop.current()
		grace = time.Until(deadline)
		p.inform("Killing", "Stopping container "+hollowpod.ContainerName)
	case order := <-p.restart:
		grace = order.grace
		p.inform("Killing", order.why)
	}
	stopProbes()
	p.change(func() { p.container.Ready = false })
	p.end(running, grace)
}

// end asks the node to end, kills it when the grace period is over or that of the pod, and returns when it has ended.
func (p *Pod) end(running *packs.Node, grace time.Duration) {
	running.Signal(syscall.SIGTERM)
	deadline := time.Now().Add(grace)
	for {
		podDeadline, changed := p.stop.current()
		if !podDeadline.IsZero() && podDeadline.Before(deadline) {
			deadline = podDeadline
		}
		timer := time.NewTimer(time.Until(deadline))
		select {
		case <-running.Done():
			timer.Stop()
			return
		case <-changed:
			timer.Stop()
		case <-timer.C:
			running.Signal(syscall.SIGKILL)
			<-running.Done()
			return
		}
	}
}

func (p *Pod) recordStartError(err error, attempt int32) {
	p.warn("Failed", fmt.Sprintf("starting container %s: %v", hollowpod.ContainerName, err))
	p.mu.Lock()
	p.container.RestartCount = attempt
	p.mu.Unlock()
	p.recordEnd(corev1.ContainerStateTerminated{ExitCode: startFailed, Reason: "StartError", Message: err.Error(), FinishedAt: metav1.Now().Rfc3339Copy()})
}

func (p *Pod) recordEnd(ended corev1.ContainerStateTerminated) {
	p.change(func() {
		ended.ContainerID = p.container.ContainerID
		p.endState(corev1.ContainerState{Terminated: &ended})
		p.container.Started, p.container.Ready = ptr.To(false), false
	})
}

// endState replaces the container's state, and keeps how the run before ended. The caller holds the lock.
func (p *Pod) endState(next corev1.ContainerState) {
	if p.container.State.Terminated != nil {
		p.container.LastTerminationState = p.container.State
	}
	p.container.State = next
}

// attempt returns the number of the next run, counted from 0. The caller holds the lock.
func (p *Pod) attempt() int32 {
	if p.container.State.Terminated == nil && p.container.LastTerminationState.Terminated == nil {
		return 0
	}
	return p.container.RestartCount + 1
}

// hasRun reports whether there is something to restart. The caller holds the lock.
func (p *Pod) hasRun() bool {
	return p.container.State.Running != nil || p.container.LastTerminationState.Terminated != nil
}

// orderRestart has the node ended, unless that was ordered already.
func (p *Pod) orderRestart(o order) {
	select {
	case p.restart <- o:
	default:
	}
}
