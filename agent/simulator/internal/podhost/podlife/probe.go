package podlife

import (
	"context"
	"errors"
	"fmt"
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

// startProbes probes a running node until the returned function is called, which returns when no probe is under way any more.
func (p *Pod) startProbes(node hollowpod.Node) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var probing sync.WaitGroup
	probing.Go(func() {
		if !p.probeStartup(ctx, node) {
			return
		}
		probing.Go(func() {
			p.probe(ctx, node.Readiness, "Readiness", func(ready bool) {
				p.change(func() { p.container.Ready = ready && p.container.State.Running != nil })
			})
		})
		p.probe(ctx, node.Liveness, "Liveness", func(alive bool) { p.restartUnless(alive, "liveness", node) })
	})
	return func() {
		cancel()
		probing.Wait()
	}
}

// probeStartup waits until the node has started by its own measure.
func (p *Pod) probeStartup(ctx context.Context, node hollowpod.Node) (started bool) {
	if node.Startup == nil {
		return true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.probe(ctx, node.Startup, startup, func(passes bool) {
		p.restartUnless(passes, "startup", node)
		if !passes {
			return
		}
		started = true
		p.change(func() { p.container.Started, p.container.Ready = ptr.To(true), node.Readiness == nil })
		cancel()
	})
	return started
}

func (p *Pod) restartUnless(passes bool, kind string, node hollowpod.Node) {
	if !passes {
		p.orderRestart(order{fmt.Sprintf("Container %s failed %s probe, will be restarted", hollowpod.ContainerName, kind), node.Grace})
	}
}

// probe probes the node until the context ends, if there is such a probe. It calls changed when the probe passes or fails often enough to
// count, and the last time it counted it was the other way round.
func (p *Pod) probe(ctx context.Context, spec *corev1.Probe, kind string, changed func(passes bool)) {
	if spec == nil {
		return
	}
	ticks := time.NewTimer(time.Duration(spec.InitialDelaySeconds) * time.Second)
	defer ticks.Stop()
	counter, told := newCounter(spec), ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		ticks.Reset(time.Duration(max(spec.PeriodSeconds, 1)) * time.Second)
		err := ask(spec, p.Address().String())
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
		if counter.count(err == nil) {
			changed(err == nil)
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

// counter applies the thresholds to single results.
type counter struct {
	need   map[bool]int
	last   bool
	run    int
	stands *bool
}

func newCounter(spec *corev1.Probe) *counter {
	return &counter{need: map[bool]int{true: int(max(spec.SuccessThreshold, 1)), false: int(max(spec.FailureThreshold, 1))}}
}

// count takes a result and reports whether it changes where the probe stands.
func (c *counter) count(passed bool) bool {
	if c.run == 0 || c.last != passed {
		c.last, c.run = passed, 0
	}
	c.run++
	if c.run < c.need[passed] || c.stands != nil && *c.stands == passed {
		return false
	}
	c.stands = ptr.To(passed)
	return true
}
