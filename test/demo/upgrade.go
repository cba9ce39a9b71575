package main

import (
	"context"
	"fmt"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	upgradeVersion = "v1.37.1"
	fleetArgument  = "fleet/" + deploymentName
)

// adopt lets a MachineFleet take over the MachineDeployments, which are what its template says.
func (d *demo) adopt(ctx context.Context) error {
	if err := d.setHeartbeat(ctx, d.fleet.members[1].Name, impatient); err != nil {
		return err
	}
	before, err := d.machineNames(ctx)
	if err != nil {
		return err
	}
	if err := d.fleet.client.Create(ctx, newMachineFleet()); err != nil {
		return fmt.Errorf("creating MachineFleet %s: %w", deploymentName, err)
	}
	d.say("created MachineFleet %s, which adopts the MachineDeployments; its first wave is %s", deploymentName, d.fleet.members[0].Name)
	d.expect(ctx, "MachineFleet "+deploymentName+" is Ready", "hub", wait, d.fleetReady())
	d.expect(ctx, "adopting them replaces no Machine", "hub", wait, d.sameMachines(before))
	return nil
}

// upgrade rolls the kubelets of all clusters in two waves. In the middle of the second, one of its clusters is cut off, while
// the other one is under a workload with a disruption budget.
func (d *demo) upgrade(ctx context.Context) error {
	canary, cut, loaded := d.fleet.members[0], d.fleet.members[1], d.fleet.members[2]
	count, err := d.load(ctx, loaded)
	if err != nil {
		return err
	}
	defer count()
	upgrading := d.startUpgrade(ctx)
	defer upgrading.stop()
	if err := d.cutOff(ctx, cut, func() error { return d.expectHeld(ctx, cut, loaded) }); err != nil {
		return err
	}
	d.expect(ctx, "Cluster "+cut.Name+" thaws", "hub", wait, d.frozen(cut.Name, metav1.ConditionFalse))
	d.expect(ctx, "kubectl hollow upgrade "+fleetArgument+" --wait ends", "hub", 2*wait, upgrading.succeeds)
	d.expect(ctx, "MachineFleet "+deploymentName+" is Ready", "hub", wait, d.fleetReady())
	for i, machines := range []int{2, 4, 3} {
		member := d.fleet.members[i]
		d.expect(ctx, "Nodes report the new kubelet version", member.Name, wait, nodesReport(member, upgradeVersion))
		d.expectMachines(ctx, member, machines)
	}
	d.expect(ctx, canary.Name+" had succeeded before the others started", "hub", wait, d.canaryFirst(canary, cut, loaded))
	d.expectWorkload(ctx, loaded)
	d.expect(ctx, fmt.Sprintf("never fewer than %d pods were available", workloadBudget), loaded.Name, wait, count().atLeast(workloadBudget))
	return nil
}

// cutOff stops the agent of a cluster while the fleet is upgraded there, and lets it continue after meanwhile.
func (d *demo) cutOff(ctx context.Context, member *member, meanwhile func() error) error {
	d.expect(ctx, member.Name+" is in the middle of its upgrade", "hub", 2*wait, d.inMidUpgrade(member.Name))
	agent, known := d.fleet.processes["agent "+member.Name]
	if !known {
		return fmt.Errorf("the agent of %s is not among the processes that kubectl hollow local up has printed", member.Name)
	}
	if err := syscall.Kill(agent, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pausing the agent of %s (process %d): %w", member.Name, agent, err)
	}
	d.say("stopped the agent of %s in the middle of its upgrade (SIGSTOP, process %d)", member.Name, agent)
	if err := meanwhile(); err != nil {
		return err
	}
	if err := syscall.Kill(agent, syscall.SIGCONT); err != nil {
		return fmt.Errorf("letting the agent of %s (process %d) continue: %w", member.Name, agent, err)
	}
	d.say("let the agent of %s continue", member.Name)
	return nil
}

// expectHeld looks at a fleet that holds one cluster and continues in the other one of its wave.
func (d *demo) expectHeld(ctx context.Context, cut, other *member) error {
	d.expect(ctx, "Cluster "+cut.Name+" freezes", "hub", wait, d.frozen(cut.Name, metav1.ConditionTrue))
	d.expect(ctx, "MachineFleet "+deploymentName+" holds "+cut.Name, "hub", wait, d.held(cut.Name))
	d.expect(ctx, "no Machine comes or goes in "+cut.Name, "hub", wait, d.unchanged(cut.Name))
	if err := d.show(ctx, "fleet", "status", deploymentName); err != nil {
		return err
	}
	d.expect(ctx, "MachineFleet "+deploymentName+" continues in "+other.Name, "hub", 2*wait, d.updated(other.Name))
	d.expect(ctx, "MachineFleet "+deploymentName+" waits for "+cut.Name, "hub", wait, d.fleetWaits())
	return nil
}

// upgrading is a run of the plugin that follows the upgrade.
type upgrading struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// startUpgrade runs the plugin, and shows what it says of the rollout.
func (d *demo) startUpgrade(ctx context.Context) *upgrading {
	d.say("kubectl hollow upgrade %s --kubelet %s --wait", fleetArgument, upgradeVersion)
	ctx, cancel := context.WithCancel(ctx)
	u := &upgrading{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		u.err = d.fleet.run(ctx, &lines{say: d.detail}, "upgrade", fleetArgument, "--kubelet", upgradeVersion, "--wait",
			"--kubeconfig", d.fleet.hub.Kubeconfig)
	}()
	return u
}

// stop ends the plugin if it has not ended yet.
func (u *upgrading) stop() {
	u.cancel()
	<-u.done
}

func (u *upgrading) succeeds(context.Context) (string, bool, error) {
	select {
	case <-u.done:
	default:
		return "it has not ended", false, nil
	}
	return "exit status 0", u.err == nil, u.err
}
