// Package probe asks containers whether they have started, are ready and are
// alive, with the kubelet's own probe libraries.
package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/probe"
	grpcprobe "k8s.io/kubernetes/pkg/probe/grpc"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"
	tcpprobe "k8s.io/kubernetes/pkg/probe/tcp"
	"k8s.io/utils/ptr"
)

// The probers hold no state between probes.
var (
	overHTTP = httpprobe.New(false)
	overTCP  = tcpprobe.New()
	overGRPC = grpcprobe.New()
)

// Target is what a probe asks.
type Target struct {
	Container *corev1.Container
	// IP is the address at which the container listens.
	IP string
	// Exec runs a command as the container would run it, and returns its
	// output with an error if it did not succeed in time.
	Exec func(ctx context.Context, command []string, timeout time.Duration) (string, error)
}

// Observer learns what a probe finds.
type Observer struct {
	// Changed is called when the probe passes or fails often enough to count,
	// and the last time it counted it was the other way round.
	Changed func(passes bool, message string)
	// Failed is called for every single failure.
	Failed func(message string)
}

// Run probes the target until the context ends. It starts to probe after the
// probe's initial delay.
func Run(ctx context.Context, spec *corev1.Probe, target Target, observer Observer) {
	ticks := time.NewTimer(time.Duration(spec.InitialDelaySeconds) * time.Second)
	defer ticks.Stop()
	counter := newCounter(spec)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		ticks.Reset(seconds(spec.PeriodSeconds, 10))
		message, err := once(ctx, spec, target)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			message = err.Error()
			observer.Failed(message)
		}
		if counter.count(err == nil) {
			observer.Changed(err == nil, message)
		}
	}
}

// counter applies the thresholds to single results.
type counter struct {
	need   map[bool]int
	last   bool
	run    int
	stands *bool
}

func newCounter(spec *corev1.Probe) *counter {
	return &counter{need: map[bool]int{
		true:  int(max(spec.SuccessThreshold, 1)),
		false: int(max(spec.FailureThreshold, 1)),
	}}
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

// once probes one time. The error is nil if the probe passed.
func once(ctx context.Context, spec *corev1.Probe, target Target) (string, error) {
	timeout := seconds(spec.TimeoutSeconds, 1)
	if spec.Exec != nil {
		return target.Exec(ctx, spec.Exec.Command, timeout)
	}
	result, output, err := overNetwork(spec, target, timeout)
	if err != nil {
		return "", err
	}
	if result != probe.Success && result != probe.Warning {
		return "", errors.New(output)
	}
	return output, nil
}

func overNetwork(spec *corev1.Probe, target Target, timeout time.Duration) (probe.Result, string, error) {
	switch {
	case spec.HTTPGet != nil:
		request, err := httpprobe.NewRequestForHTTPGetAction(spec.HTTPGet, target.Container, target.IP, "probe")
		if err != nil {
			return probe.Unknown, "", fmt.Errorf("making the probe's request: %w", err)
		}
		return overHTTP.Probe(request, timeout)
	case spec.TCPSocket != nil:
		port, err := probe.ResolveContainerPort(spec.TCPSocket.Port, target.Container)
		if err != nil {
			return probe.Unknown, "", fmt.Errorf("finding the probe's port: %w", err)
		}
		host := target.IP
		if spec.TCPSocket.Host != "" {
			host = spec.TCPSocket.Host
		}
		return overTCP.Probe(host, port, timeout)
	case spec.GRPC != nil:
		return overGRPC.Probe(target.IP, ptr.Deref(spec.GRPC.Service, ""), int(spec.GRPC.Port), timeout, grpcprobe.ProbeOptions{})
	}
	return probe.Unknown, "", errors.New("the probe has no handler")
}

func seconds(value, byDefault int32) time.Duration {
	if value <= 0 {
		value = byDefault
	}
	return time.Duration(value) * time.Second
}
