package podlife

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/probe"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/hollowpod"
)

// startup is the kind of the probe that lasts until the node has started.
const startup = "Startup"

// prober is the kubelet's own. It holds no state between probes.
var prober = httpprobe.New(false)

// startProbes probes a running node until the returned function is called, which returns when no probe is under way any more. The startup
// probe holds the others back.
func (p *Pod) startProbes() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var probing sync.WaitGroup
	probing.Go(func() {
		p.probe(ctx, p.node.Startup, startup, func(passes bool) (isDone bool) {
			if passes {
				p.change(func() { p.container.Started, p.container.Ready = ptr.To(true), p.node.Readiness == nil })
			}
			return passes
		})
		probing.Go(func() {
			p.probe(ctx, p.node.Readiness, "Readiness", func(passes bool) bool {
				if passes != p.isReady() {
					p.change(func() { p.container.Ready = passes })
				}
				return false
			})
		})
		p.probe(ctx, p.node.Liveness, "Liveness", func(bool) bool { return false })
	})
	return func() {
		cancel()
		probing.Wait()
	}
}

func (p *Pod) isReady() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.container.Ready
}

// probe probes the node, if there is such a probe, until the context ends or decide returns true. It calls decide whenever the probe has
// passed or failed often enough in a row. A node that is not ready stays, any other failure restarts it.
func (p *Pod) probe(ctx context.Context, spec *corev1.Probe, kind string, decide func(passes bool) (isDone bool)) {
	if spec == nil {
		return
	}
	ticks := time.NewTimer(time.Duration(spec.InitialDelaySeconds) * time.Second)
	defer ticks.Stop()
	for results, told := (streak{}), ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		ticks.Reset(time.Duration(max(spec.PeriodSeconds, 1)) * time.Second)
		err := ask(spec, p.ip.String())
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			message := fmt.Sprintf("%s probe of container %s failed: %v", kind, hollowpod.ContainerName, err)
			// A node fails this probe until it has joined: to say so every two seconds would be a write each.
			if kind != startup || message != told {
				p.warn("Unhealthy", message)
			}
			told = message
		}
		if !results.reaches(err == nil, spec) {
			continue
		}
		if err != nil && kind != "Readiness" {
			select {
			case p.restart <- strings.ToLower(kind):
			default: // It is being restarted.
			}
		}
		if decide(err == nil) {
			return
		}
	}
}

// ask probes one time. The error is nil if the probe passed.
func ask(spec *corev1.Probe, ip string) error {
	request, err := httpprobe.NewRequestForHTTPGetAction(spec.HTTPGet, &corev1.Container{}, ip, "probe")
	if err != nil {
		return fmt.Errorf("making the probe's request: %w", err)
	}
	result, output, err := prober.Probe(request, time.Duration(max(spec.TimeoutSeconds, 1))*time.Second)
	if err == nil && result != probe.Success && result != probe.Warning {
		return errors.New(output)
	}
	return err
}

// streak counts results of one kind in a row.
type streak struct {
	passed bool
	length int32
}

// reaches takes a result and reports whether there are as many in a row as count.
func (s *streak) reaches(passed bool, spec *corev1.Probe) bool {
	if s.passed != passed {
		s.passed, s.length = passed, 0
	}
	s.length++
	need := spec.FailureThreshold
	if passed {
		need = spec.SuccessThreshold
	}
	return s.length >= need
}
