package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

const (
	deploymentName = localfleet.WorkersName
	kubeletVersion = "v1.36.2"
	wait           = 4 * time.Minute
)

// demo is one run: the fleet and what was seen of it.
type demo struct {
	*ledger
	fleet *fleet
	// report is the file with the report of the load test, once it is written.
	report string
}

// step is a part of the demo. It notes facts; its error is what keeps the demo from continuing.
type step func(context.Context) error

func runDemo(ctx context.Context, opts options) error {
	ctx, cancel := context.WithTimeoutCause(ctx, opts.timeout, fmt.Errorf("giving up after %s, the time that --timeout gives", opts.timeout))
	defer cancel()
	dir, err := opts.claim(ctx)
	if err != nil {
		return err
	}
	defer dir.release()
	book := &ledger{out: opts.out, started: time.Now(), verbose: opts.verbose}
	book.say("starting a hub, %d clusters and their agents, which takes half a minute", clusters)
	fleet, err := startFleet(ctx, book, dir.path, opts)
	if err != nil {
		return errors.Join(err, opts.end(ctx, dir.path))
	}
	d := &demo{ledger: book, fleet: fleet}
	return d.perform(ctx, opts, d.acts()...)
}

// perform takes the fleet through acts and says what was seen. It ends the fleet, unless that is to stay and every step
// was taken, whatever came of it.
func (d *demo) perform(ctx context.Context, opts options, acts ...act) error {
	ended := d.run(ctx, acts)
	err := d.conclude(ended)
	keep := opts.keep && ended == nil
	if !keep {
		d.say("ending the fleet")
		err = errors.Join(err, d.fleet.down(ctx, d.fleet.dir))
	}
	if ended == nil {
		d.printNext(keep)
	}
	return err
}

// run returns what kept it from taking all steps.
func (d *demo) run(ctx context.Context, acts []act) error {
	for i, act := range acts {
		d.open(act, i+1, len(acts))
		for _, step := range act.steps {
			if err := step(ctx); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		d.close()
	}
	return nil
}

func (d *demo) join(ctx context.Context) error {
	for _, member := range d.fleet.members {
		d.expect(ctx, "Cluster "+member.Name+" is Ready", "hub", wait, d.clusterReady(member.Name))
	}
	return nil
}

func (d *demo) create(ctx context.Context) error {
	for _, member := range d.fleet.members {
		if err := d.createDeployment(ctx, member.Name, 3); err != nil {
			return err
		}
	}
	d.say("created MachineDeployment %s with 3 replicas in each of %d clusters", deploymentName, len(d.fleet.members))
	for _, member := range d.fleet.members {
		d.expectMachines(ctx, member, 3)
	}
	for _, member := range d.fleet.members {
		d.expect(ctx, "Nodes report the kubelet version asked for", member.Name, wait, nodesReport(member, kubeletVersion))
	}
	return d.setHeartbeat(ctx, d.fleet.members[1].Name, frequent)
}

func (d *demo) createDeployment(ctx context.Context, cluster string, replicas int32) error {
	for _, object := range localfleet.Workers(cluster, replicas, kubeletVersion) {
		if err := d.fleet.client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %T %s/%s: %w", object, cluster, object.GetName(), err)
		}
	}
	return nil
}

// expectMachines looks at both sides: Nodes in the workload cluster, Machines on the hub.
func (d *demo) expectMachines(ctx context.Context, member *member, want int) {
	d.expect(ctx, fmt.Sprintf("%d Nodes, all Ready", want), member.Name, wait, nodesReady(member, want))
	d.expect(ctx, fmt.Sprintf("%d Machines, all Ready with their NodeRef (%s)", want, member.Name), "hub", wait, d.machinesReady(member, want))
}

func (d *demo) scale(ctx context.Context) error {
	member := d.fleet.members[0]
	for _, want := range []int{6, 2} {
		if err := d.scaleTo(ctx, member.Name, want); err != nil {
			return err
		}
		d.say("scaled %s/%s to %d", member.Name, deploymentName, want)
		d.expectMachines(ctx, member, want)
	}
	d.expect(ctx, "2 hollow-node pods are left", member.Name, wait, hollowPods(member, 2))
	return nil
}

func (d *demo) scaleTo(ctx context.Context, cluster string, replicas int) error {
	deployment := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: deploymentName}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := d.fleet.client.Patch(ctx, deployment, patch); err != nil {
		return fmt.Errorf("scaling MachineDeployment %s/%s: %w", cluster, deploymentName, err)
	}
	return nil
}

// kill ends the process that the hollow nodes of a cluster share for real. What it then looks for may be over in a second, so it
// watches the history of a Machine instead of looking now and then.
func (d *demo) kill(ctx context.Context) error {
	member := d.fleet.members[1]
	machine, pid, err := d.pickVictim(ctx, member)
	if err != nil {
		return err
	}
	history, err := d.watchReadiness(ctx, machine)
	if err != nil {
		return err
	}
	defer history.Stop()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing the hollow nodes of %s (process %d): %w", member.Name, pid, err)
	}
	d.say("killed the process that runs the nodes of %s (SIGKILL, process %d)", member.Name, pid)
	d.expect(ctx, "a Machine of "+member.Name+" loses readiness", "hub", wait, history.next(metav1.ConditionFalse))
	d.expect(ctx, "it regains readiness", "hub", wait, history.next(metav1.ConditionTrue))
	d.expectMachines(ctx, member, 3)
	return nil
}
