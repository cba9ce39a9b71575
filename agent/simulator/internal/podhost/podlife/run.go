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

const (
	// startFailed is the exit code of a container whose program could not be started.
	startFailed = 128
	// backoffID is the one thing that a pod waits for.
	backoffID = ""
)

// runNode runs the node, again and again, until the pod is terminated.
func (p *Pod) runNode() {
	for !p.isEnding() {
		p.runOnce()
		p.awaitRestart()
	}
}

// awaitRestart waits as long as the kubelet does before it starts a node again. One that ran for twice the longest wait starts over.
func (p *Pod) awaitRestart() {
	ended := time.Now()
	delay := p.backoff.Get(backoffID)
	if p.backoff.IsInBackOffSince(backoffID, ended) && !p.isEnding() {
		message := fmt.Sprintf("back-off %s restarting failed container %s", delay, hollowpod.ContainerName)
		p.change(func() {
			p.container.LastTerminationState = p.container.State
			p.container.State = waiting("CrashLoopBackOff", message)
		})
		p.warn("BackOff", message)
		select {
		case <-p.ending:
		case <-time.After(delay):
		}
	}
	p.backoff.Next(backoffID, ended)
}

// runOnce runs the node until it ends.
func (p *Pod) runOnce() {
	select {
	case <-p.restart: // It was meant for the run before.
	default:
	}
	p.mu.Lock()
	pod, attempt, ip := p.pod, p.attempt(), p.ip // A pod is replaced, never changed.
	p.mu.Unlock()
	if attempt > 1 {
		logfile.Remove(p.runtime.Files.Log(pod.UID, attempt-2)) // Only the log of the run before is asked for.
	}
	var running *packs.Node
	log, err := logfile.Create(p.runtime.Files.Log(pod.UID, attempt), p.runtime.LogLimit)
	spec := packs.Spec{Name: pod.Namespace + "/" + pod.Name, Image: p.node.Directory, Args: p.runtime.Files.Args(pod.UID, ip), Log: log}
	if err == nil {
		defer log.Close()
		p.change(func() { // Its log can be read while it starts.
			p.container.Image, p.container.ImageID, p.container.RestartCount = p.node.Image, "podhost://"+p.node.Directory, attempt
			p.container.ContainerID = fmt.Sprintf("podhost://%s_%s_%d", pod.UID, hollowpod.ContainerName, attempt)
		})
		running, err = p.runtime.Packs.Start(spec)
	}
	if err != nil {
		p.warn("Failed", fmt.Sprintf("starting container %s: %v", hollowpod.ContainerName, err))
		p.recordEnd(attempt, corev1.ContainerStateTerminated{ExitCode: startFailed, Reason: "StartError", Message: err.Error(), FinishedAt: metav1.Now().Rfc3339Copy()})
		return
	}
	startedAt := p.recordStart()
	exit := p.supervise(running, spec)
	ended := corev1.ContainerStateTerminated{
		ExitCode: int32(exit.Code), Signal: int32(exit.Signal), Reason: "Completed", StartedAt: startedAt, FinishedAt: metav1.NewTime(exit.At).Rfc3339Copy(),
	}
	if exit.Code != 0 {
		ended.Reason = "Error"
	}
	p.recordEnd(attempt, ended)
}

// supervise waits until the node has ended, and ends it when ordered to. A node whose pack is replaced continues in another one.
func (p *Pod) supervise(running *packs.Node, spec packs.Spec) packs.Exit {
	stopProbes := p.startProbes()
	defer stopProbes()
	for {
		select {
		case <-running.Done():
			return running.Exit()
		case <-running.Leaves():
			p.endNode(running, p.node.Grace)
			if p.isEnding() {
				return running.Exit()
			}
			next, err := p.runtime.Packs.Start(spec)
			if err != nil {
				return running.Exit() // It is started again like any other that has ended.
			}
			running = next
			continue
		case <-p.ending:
			p.inform("Killing", "Stopping container "+hollowpod.ContainerName)
		case probe := <-p.restart:
			p.inform("Killing", fmt.Sprintf("Container %s failed %s probe, will be restarted", hollowpod.ContainerName, probe))
		}
		stopProbes()
		p.change(func() { p.container.Ready = false })
		p.endNode(running, p.node.Grace)
		return running.Exit()
	}
}

// endNode asks the node to end, kills it when its time or that of the pod is over, and returns when it has ended.
func (p *Pod) endNode(running *packs.Node, grace time.Duration) {
	running.Signal(syscall.SIGTERM)
	var over <-chan time.Time
	if !p.isEnding() {
		over = time.After(grace)
	}
	select {
	case <-running.Done():
		return
	case <-p.killing:
	case <-over:
	}
	running.Signal(syscall.SIGKILL)
	<-running.Done()
}

func (p *Pod) recordStart() metav1.Time {
	startedAt := metav1.Now().Rfc3339Copy()
	p.change(func() {
		p.replaceState(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: startedAt}})
		p.container.Started = ptr.To(p.node.Startup == nil)
		p.container.Ready = *p.container.Started && p.node.Readiness == nil
	})
	p.inform("Started", "Started container "+hollowpod.ContainerName)
	return startedAt
}

func (p *Pod) recordEnd(attempt int32, ended corev1.ContainerStateTerminated) {
	p.change(func() {
		ended.ContainerID = p.container.ContainerID
		p.replaceState(corev1.ContainerState{Terminated: &ended})
		p.container.RestartCount, p.container.Started, p.container.Ready = attempt, ptr.To(false), false
	})
}

// replaceState replaces the container's state, and keeps how the run before ended. The caller holds the lock.
func (p *Pod) replaceState(next corev1.ContainerState) {
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
