package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// freezeAfter is that of the demo's agents: shorter than the default, so that its user need not wait for half a minute.
	freezeAfter = 6 * time.Second
	// stillness is how long the demo watches that nothing happens.
	stillness = 3 * time.Second

	apiServer = "kube-apiserver"
)

// freeze stops the API server of one workload cluster and lets it continue: nothing may happen there meanwhile,
// and what was asked for happens after it.
func (d *demo) freeze(ctx context.Context) error {
	member := d.fleet.members[1]
	if err := member.component(ctx, "pause", apiServer); err != nil {
		return fmt.Errorf("pausing the API server of %s: %w", member.Name, err)
	}
	d.say("stopped the API server of %s (SIGSTOP): it neither answers nor closes a connection", member.Name)
	d.expect(ctx, "Cluster "+member.Name+" freezes", "hub", wait, d.frozen(member.Name, metav1.ConditionTrue))
	if err := d.scaleTo(ctx, member.Name, 4); err != nil {
		return err
	}
	d.say("scaled %s/%s to 4: it has to wait", member.Name, deploymentName)
	if err := d.show(ctx, "cluster", "list"); err != nil {
		return err
	}
	d.expect(ctx, "no Machine comes or goes in "+member.Name, "hub", wait, d.unchanged(member.Name))
	if err := member.component(ctx, "resume", apiServer); err != nil {
		return fmt.Errorf("resuming the API server of %s: %w", member.Name, err)
	}
	d.say("let the API server of %s continue", member.Name)
	d.expect(ctx, "Cluster "+member.Name+" thaws", "hub", wait, d.frozen(member.Name, metav1.ConditionFalse))
	d.expectMachines(ctx, member, 4)
	return nil
}

func (d *demo) frozen(name string, want metav1.ConditionStatus) look {
	return func(ctx context.Context) (string, bool, error) {
		cluster := &v1alpha1.Cluster{}
		if err := d.fleet.client.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
			return "", false, err
		}
		frozen := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.FrozenCondition)
		if frozen == nil {
			return "no Frozen condition", false, nil
		}
		return fmt.Sprintf("Frozen=%s, %s", frozen.Status, frozen.Reason), frozen.Status == want, nil
	}
}

// unchanged holds when the Machines of a cluster have stayed as they are for a while, and fails with the first
// change, which it continues to show.
func (d *demo) unchanged(cluster string) look {
	var first, change string
	var since time.Time
	return func(ctx context.Context) (string, bool, error) {
		machines := &v1alpha1.MachineList{}
		if err := d.fleet.client.List(ctx, machines, client.InNamespace(cluster)); err != nil {
			return "", false, err
		}
		seen := ""
		for _, machine := range machines.Items {
			ready := meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition)
			seen += fmt.Sprintf("%s ready=%t deleted=%t ", machine.Name, ready, machine.DeletionTimestamp != nil)
		}
		switch {
		case first == "":
			first, since = seen, time.Now()
		case seen != first && change == "":
			change = fmt.Sprintf("changed after %.1fs from %sto %s", time.Since(since).Seconds(), first, seen)
		}
		if change != "" {
			return change, false, nil
		}
		return fmt.Sprintf("%d Machines, the same for %s", len(machines.Items), stillness), time.Since(since) >= stillness, nil
	}
}
