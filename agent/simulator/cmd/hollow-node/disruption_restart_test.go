package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"
	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// expectKilled waits until the process has died as if it were killed.
func (p *process) expectKilled(t *testing.T) {
	t.Helper()
	err := p.awaitEnd(t, time.Minute)
	var exit *exec.ExitError
	if status, ok := p.command.ProcessState.Sys().(syscall.WaitStatus); !errors.As(err, &exit) || !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("ended with %v, want it killed", err)
	}
}

// Claim: Kill and Reboot act once a window. Broken: the process does not end. Also: agent/simulator/internal/disrupt TestAProcessDiesOnceInAWindow.
func TestKillRebootAndNeverJoin(t *testing.T) {
	longOnly(t)
	t.Parallel()
	p := newProcess(t, realCluster(t), configurationOf("killed"), goodToken)
	p.disrupt(t, lasting(25*time.Second, plan.Fault{Type: plan.NeverJoin}))
	p.start(t)
	eventually(t, "the process is up", 10*time.Second, func(context.Context) error { return p.expectFaults(plan.NeverJoin) })
	throughout(t, "it does not join", 10*time.Second, func(ctx context.Context) error {
		if own, err := p.requests(ctx); err != nil || len(own) > 0 {
			return errors.Join(fmt.Errorf("%d requests", len(own)), err)
		}
		return p.expectProbe("/healthz", 200)
	})
	p.approve(t)
	first := p.readyNode(t)

	// A window that had started before the process did would be an old one.
	kill := lasting(10*time.Minute, plan.Fault{Type: plan.Kill})
	kill.HealthyFor = seconds(3)
	p.disrupt(t, kill)
	p.expectKilled(t)
	p.start(t) // as the pod's restart policy does, in the same window
	eventually(t, "the Node is ready again", time.Minute, p.anotherBoot(first))
	if err := p.expectFaults(); err != nil {
		t.Error(err)
	}
	second := p.readyNode(t)

	reboot := lasting(30*time.Second, plan.Fault{Type: plan.Reboot})
	reboot.HealthyFor = seconds(3)
	p.disrupt(t, reboot)
	p.expectKilled(t)
	p.start(t)
	eventually(t, "the process is up", 10*time.Second, func(context.Context) error { return p.expectFaults(plan.Reboot) })
	throughout(t, "the Node is away", time.Until(reboot.End.Time)-2*time.Second, func(ctx context.Context) error {
		age, err := p.leaseAge(ctx)
		if err == nil && age < time.Since(reboot.Start.Add(reboot.HealthyFor.Duration))-time.Second {
			err = fmt.Errorf("the Lease was renewed %s ago", age)
		}
		return errors.Join(err, p.expectProbe("/readyz", 503), p.expectProbe("/healthz", 200))
	})
	eventually(t, "the Node is back", time.Minute, p.anotherBoot(second))
	p.readyNode(t)
}

// anotherBoot expects the same Node with another boot ID.
func (p *process) anotherBoot(before *corev1.Node) func(context.Context) error {
	return func(ctx context.Context) error {
		node, err := p.node(ctx)
		if err == nil && (node.UID != before.UID || node.Status.NodeInfo.BootID == before.Status.NodeInfo.BootID) {
			err = fmt.Errorf("UID %s, boot ID %s", node.UID, node.Status.NodeInfo.BootID)
		}
		return err
	}
}

// A condition stays on the Node when the process dies, and the next process has no note of it.
// Claim: A restarted node removes only its disruptions' conditions. Broken: conditions are not known by their message. Also: agent/simulator/internal/disrupt TestStatesOfFaults.
func TestARestartedNodeRemovesTheConditionsOfItsDisruptions(t *testing.T) {
	longOnly(t)
	t.Parallel()
	p := newProcess(t, realCluster(t), configurationOf("forgetful"), goodToken)
	p.join(t)
	p.disrupt(t, lasting(10*time.Minute, plan.Fault{Type: plan.Condition, Condition: &plan.ConditionParameters{Type: "KernelDeadlock"}}))
	eventually(t, "the Node has the condition", time.Minute, p.condition("KernelDeadlock", corev1.ConditionTrue, "(disrupted by outage)"))
	p.terminate(t)
	p.disrupt(t)
	p.start(t)
	eventually(t, "the condition is gone", time.Minute, p.condition("KernelDeadlock", "", ""))
}

// Claim: Configured unhealthiness survives restarts. Broken: the configuration's entry is not followed. Also: agent/driver/hollow TestUnhealthy.
func TestANodeTurnsUnhealthyByItsConfiguration(t *testing.T) {
	longOnly(t)
	t.Parallel()
	configuration := configurationOf("unhealthy")
	configuration.Unhealthy = &contract.Unhealthy{HealthyFor: seconds(15)}
	p := newProcess(t, realCluster(t), configuration, goodToken)
	p.join(t)
	notReady := p.condition(corev1.NodeReady, corev1.ConditionFalse, "disrupted by configuration")
	eventually(t, "the Node is not ready", time.Minute, notReady)
	p.terminate(t)
	p.start(t)
	eventually(t, "the restarted process is up", 30*time.Second, func(context.Context) error { return p.expectFaults(plan.NotReady) })
	throughout(t, "the Node is not ready for good", 30*time.Second, notReady)
}
