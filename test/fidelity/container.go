package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// container is the container that a kind node is. It is a script.Machine.
type container struct{ docker, name string }

func (c *container) run(ctx context.Context, args ...string) error {
	output, err := exec.CommandContext(ctx, c.docker, append([]string{"exec", c.name}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s in %s: %w: %s", strings.Join(args, " "), c.name, err, output)
	}
	return nil
}

// putStaticPod writes a manifest to where the kubelet looks for static pods.
func (c *container) putStaticPod(ctx context.Context, pod *corev1.Pod) error {
	manifest, err := json.Marshal(pod)
	if err != nil {
		return err
	}
	file := "/etc/kubernetes/manifests/" + pod.Name + ".yaml"
	// Written beside it and renamed, so that the kubelet never reads a part.
	command := exec.CommandContext(ctx, c.docker, "exec", "-i", c.name, "sh", "-c", "cat >/etc/kubernetes/static-pod && mv /etc/kubernetes/static-pod "+file)
	command.Stdin = bytes.NewReader(manifest)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("writing %s in %s: %w: %s", file, c.name, err, output)
	}
	return nil
}

// startDevicePlugin starts a program beside the kubelet, which registers with it. It ends with the container.
func (c *container) startDevicePlugin(ctx context.Context, program string) error {
	const inside = "/usr/local/bin/fidelity-device-plugin"
	if output, err := exec.CommandContext(ctx, c.docker, "cp", program, c.name+":"+inside).CombinedOutput(); err != nil {
		return fmt.Errorf("copying %s into %s: %w: %s", program, c.name, err, output)
	}
	const unit = "fidelity-device-plugin" // That of an earlier run may be there.
	return c.run(ctx, "sh", "-c", "systemctl stop "+unit+" 2>/dev/null; exec systemd-run --collect --unit="+unit+" --property=Restart=always "+inside)
}

// RestartKubelet restarts the kubelet's unit.
func (c *container) RestartKubelet(ctx context.Context) (time.Time, error) {
	return time.Now(), c.run(ctx, "systemctl", "restart", "kubelet")
}

// RestartKubeletIn does so later.
func (c *container) RestartKubeletIn(_ context.Context, after time.Duration) (time.Time, func(context.Context) error, error) {
	at := time.Now().Add(after)
	return at, func(ctx context.Context) error {
		if err := sleepUntil(ctx, at); err != nil {
			return err
		}
		_, err := c.RestartKubelet(ctx)
		return err
	}, nil
}

func sleepUntil(ctx context.Context, at time.Time) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Until(at)):
		return nil
	}
}

// StopRuntime stops containerd. The containers stay.
func (c *container) StopRuntime(ctx context.Context) (time.Time, func(context.Context) error, error) {
	start := func(ctx context.Context) error { return c.run(ctx, "systemctl", "start", "containerd") }
	return time.Now(), start, c.run(ctx, "systemctl", "stop", "containerd")
}

// CutOff drops what the node sends to the API server.
func (c *container) CutOff(ctx context.Context) (time.Time, func(context.Context) error, error) {
	rule := func(action string) []string {
		return []string{"iptables", action, "OUTPUT", "-p", "tcp", "--dport", "6443", "-j", "DROP"}
	}
	mend := func(ctx context.Context) error { return c.run(ctx, rule("-D")...) }
	return time.Now(), mend, c.run(ctx, rule("-I")...)
}
