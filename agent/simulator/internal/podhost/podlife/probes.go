package podlife

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/probe"
)

// startProbes probes a running container until the returned function is
// called, which returns when no probe is under way any more.
func (c *container) startProbes(launch *launch) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var probing sync.WaitGroup
	probing.Go(func() {
		if !c.probeStartup(ctx, launch) {
			return
		}
		if spec := launch.container.ReadinessProbe; spec != nil {
			probing.Go(func() {
				c.probe(ctx, launch, spec, "Readiness", func(ready bool, _ string) {
					c.pod.change(func() { c.status.Ready = ready && c.status.State.Running != nil })
				})
			})
		}
		if spec := launch.container.LivenessProbe; spec != nil {
			c.probe(ctx, launch, spec, "Liveness", func(alive bool, _ string) {
				if !alive {
					c.orderForProbe("liveness", spec)
				}
			})
		}
	})
	return func() {
		cancel()
		probing.Wait()
	}
}

// probeStartup waits until the container has started by its own measure.
func (c *container) probeStartup(ctx context.Context, launch *launch) bool {
	spec := launch.container.StartupProbe
	if spec == nil {
		return true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var started bool
	c.probe(ctx, launch, spec, "Startup", func(passes bool, _ string) {
		if !passes {
			c.orderForProbe("startup", spec)
			return
		}
		started = true
		c.pod.change(func() {
			c.status.Started = ptr.To(true)
			c.status.Ready = launch.container.ReadinessProbe == nil
		})
		cancel()
	})
	return started
}

func (c *container) probe(ctx context.Context, launch *launch, spec *corev1.Probe, kind string, changed func(bool, string)) {
	target := probe.Target{Container: launch.container, IP: launch.pod.Status.PodIP, Exec: launch.exec}
	probe.Run(ctx, spec, target, probe.Observer{
		Changed: changed,
		Failed: func(message string) {
			c.pod.warn("Unhealthy", fmt.Sprintf("%s probe of container %s failed: %s", kind, launch.container.Name, message))
		},
	})
}

func (c *container) orderForProbe(kind string, spec *corev1.Probe) {
	grace := gracePeriod(c.pod.Snapshot())
	if spec.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second
	}
	c.order(fmt.Sprintf("Container %s failed %s probe, will be restarted", c.status.Name, kind), grace)
}
