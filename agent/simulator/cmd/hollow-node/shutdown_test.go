package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"
	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// shutsDown is the configuration of a node with grace periods.
func shutsDown(name string, all, critical int) contract.Configuration {
	configuration, fidelity := configurationOf(name), contract.Fast()
	fidelity.Kubelet.NodeStatusUpdateFrequency = seconds(1)
	configuration.Fidelity = &fidelity
	configuration.KubeletConfiguration = &contract.KubeletConfiguration{ShutdownGracePeriod: seconds(all), ShutdownGracePeriodCriticalPods: seconds(critical)}
	return configuration
}

// takesToEnd lets a pod's container take so long to end.
func takesToEnd(duration string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{"hollowfleet.io/terminates-after": duration}
	}
}

// terminated expects a pod that the kubelet has ended for a shutdown, and returns when its container ended.
func (p *process) terminated(ctx context.Context, name string) (time.Time, error) {
	pod, err := p.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return time.Time{}, err
	}
	if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "Terminated" || pod.DeletionTimestamp != nil {
		return time.Time{}, fmt.Errorf("pod %s: phase %s, reason %q, deleted %v", name, pod.Status.Phase, pod.Status.Reason, pod.DeletionTimestamp)
	}
	for _, status := range pod.Status.ContainerStatuses {
		if ended := status.State.Terminated; ended != nil {
			return ended.FinishedAt.Time, nil
		}
	}
	return time.Time{}, fmt.Errorf("pod %s: its container has not ended", name)
}

// Claim: A Shutdown ends pods in the grace periods of their priorities, and the machine is off until the window ends. Broken: the kubelet does not hear of it; the machine is off at once; the next process joins within the window.
func TestANodeShutsDownGracefully(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), shutsDown("shuts-down", 20, 8), goodToken)
	before := p.join(t)
	ordinary := p.create(t, p.pod("ordinary", takesToEnd("3s")), isReady)
	critical := p.create(t, p.pod("critical", takesToEnd("3s"), func(pod *corev1.Pod) { pod.Spec.PriorityClassName = "system-node-critical" }), isReady)

	fault := lasting(45*time.Second, plan.Fault{Type: plan.Shutdown})
	fault.HealthyFor = seconds(2)
	p.disrupt(t, fault)
	eventually(t, "the Node says that it shuts down", 15*time.Second, p.condition(corev1.NodeReady, corev1.ConditionFalse, "node is shutting down"))
	p.expectKilled(t)
	first, firstErr := p.terminated(t.Context(), ordinary.Name)
	last, lastErr := p.terminated(t.Context(), critical.Name)
	if err := errors.Join(firstErr, lastErr); err != nil {
		t.Fatal(err)
	}
	if last.Sub(first) < 3*time.Second {
		t.Errorf("the critical pod ended %s after the ordinary one, which it has to wait for", last.Sub(first))
	}

	p.start(t) // as the pod's restart policy does
	eventually(t, "the process is up", 10*time.Second, func(context.Context) error { return p.expectFaults(plan.Shutdown) })
	throughout(t, "the machine is off", time.Until(fault.End.Time)-2*time.Second, func(context.Context) error { return p.expectProbe("/readyz", 503) })
	eventually(t, "the Node is back", time.Minute, p.anotherBoot(before))
	p.readyNode(t)
	if _, err := p.terminated(t.Context(), ordinary.Name); err != nil {
		t.Error(err)
	}
}

// Claim: A Shutdown that ends before the machine is off is cancelled. Broken: the Node stays not Ready; the machine goes off.
func TestAShutdownIsCancelled(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), shutsDown("stays-up", 20, 0), goodToken)
	before := p.join(t)
	pod := p.create(t, p.pod("ends", takesToEnd("6s")), isReady)
	p.disrupt(t, lasting(time.Hour, plan.Fault{Type: plan.Shutdown})) // It starts now, after the process.
	eventually(t, "the Node says that it shuts down", 15*time.Second, p.condition(corev1.NodeReady, corev1.ConditionFalse, "node is shutting down"))
	p.disrupt(t)
	eventually(t, "the pod has ended", 30*time.Second, func(ctx context.Context) error {
		_, err := p.terminated(ctx, pod.Name)
		return err
	})
	eventually(t, "the Node is ready", 30*time.Second, p.condition(corev1.NodeReady, corev1.ConditionTrue, ""))
	throughout(t, "the machine stays on", 6*time.Second, p.condition(corev1.NodeReady, corev1.ConditionTrue, ""))
	if after := p.readyNode(t); after.Status.NodeInfo.BootID != before.Status.NodeInfo.BootID || p.command.ProcessState != nil {
		t.Error("the machine was off")
	}
	p.create(t, p.pod("new"), isReady)
}

// A kubelet without grace periods takes no lock.
func TestANodeWithoutGracePeriodsIsOffAtOnce(t *testing.T) {
	longOnly(t)
	t.Parallel()
	p := newProcess(t, realCluster(t), configurationOf("off-at-once"), goodToken)
	p.join(t)
	pod := p.create(t, p.pod("runs", takesToEnd("20s")), isReady)
	fault := lasting(time.Minute, plan.Fault{Type: plan.Shutdown})
	fault.HealthyFor = seconds(2)
	p.disrupt(t, fault)
	p.expectKilled(t)
	if took := time.Since(fault.Start.Add(fault.HealthyFor.Duration)); took > 8*time.Second {
		t.Errorf("the machine was off %s after the start of the window", took)
	}
	if found, err := p.client.CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil || found.Status.Phase != corev1.PodRunning {
		t.Errorf("the pod: %v, %s", err, found.Status.Phase)
	}
}
