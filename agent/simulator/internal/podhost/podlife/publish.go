package podlife

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/podstatus"
)

// change applies a change and has the resulting status published.
func (p *Pod) change(apply func()) {
	p.mu.Lock()
	apply()
	p.compute()
	p.mu.Unlock()
	wake(p.dirty)
}

// compute derives the status. The caller holds the lock.
func (p *Pod) compute() {
	in := podstatus.Input{
		Pod:        p.pod,
		Previous:   ptr.To(p.status),
		Terminated: p.ended,
		Reason:     p.reason,
		Message:    p.message,
		StartTime:  p.startTime,
		Now:        metav1.Now().Rfc3339Copy(),
	}
	if p.ip.IsValid() {
		in.IP = p.ip.String()
	}
	for _, c := range p.initial {
		in.Init = append(in.Init, *c.status.DeepCopy())
	}
	for _, c := range p.regular {
		in.Regular = append(in.Regular, *c.status.DeepCopy())
	}
	p.status = podstatus.Compute(in)
}

// publish hands out the status after every change, until the pod has ended.
// The last status is left to the goroutine that waits for the end.
func (p *Pod) publish() {
	for {
		select {
		case <-p.done:
			return
		case <-p.dirty:
		}
		select {
		case <-p.done:
			return
		case <-time.After(publishDelay):
		}
		p.publishOnce()
	}
}

func (p *Pod) publishOnce() {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	p.mu.Lock()
	silent := p.silent
	p.mu.Unlock()
	if !silent {
		p.runtime.Publish(p.Snapshot())
	}
}

func (p *Pod) warn(reason, message string) { p.event(corev1.EventTypeWarning, reason, message) }

func (p *Pod) inform(reason, message string) { p.event(corev1.EventTypeNormal, reason, message) }

func (p *Pod) event(kind, reason, message string) {
	p.mu.Lock()
	silent, pod := p.silent, p.pod
	p.mu.Unlock()
	if !silent {
		p.runtime.Recorder.Event(pod, kind, reason, message)
	}
}
