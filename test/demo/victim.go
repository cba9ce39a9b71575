package main

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

// pickVictim returns the first Machine of a cluster and the process of its hollow nodes.
func (d *demo) pickVictim(ctx context.Context, member *member) (*v1alpha1.Machine, int, error) {
	machines := &v1alpha1.MachineList{}
	if err := d.fleet.client.List(ctx, machines, client.InNamespace(member.Name)); err != nil {
		return nil, 0, fmt.Errorf("listing the Machines of %s: %w", member.Name, err)
	}
	ready, err := process.ReadReady(member.dir)
	if err != nil {
		return nil, 0, err
	}
	pids := ready.HollowNodes()
	if len(machines.Items) == 0 || len(pids) == 0 {
		return nil, 0, fmt.Errorf("cluster %s has %d Machines and %d processes with hollow nodes; want one of each to kill",
			member.Name, len(machines.Items), len(pids))
	}
	return &machines.Items[0], pids[0], nil
}

// history reads the versions of one Machine one after another, missing none.
type history struct{ watch.Interface }

func (d *demo) watchReadiness(ctx context.Context, machine *v1alpha1.Machine) (*history, error) {
	watching, err := d.fleet.client.Watch(ctx, &v1alpha1.MachineList{}, client.InNamespace(machine.Namespace),
		client.MatchingFields{"metadata.name": machine.Name},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: machine.ResourceVersion}})
	if err != nil {
		return nil, fmt.Errorf("watching Machine %s: %w", machine.Name, err)
	}
	return &history{watching}, nil
}

// next waits for a version of the Machine whose Ready condition is, or is not, True.
func (h *history) next(want metav1.ConditionStatus) look {
	return func(ctx context.Context) (string, bool, error) {
		for {
			select {
			case event, open := <-h.ResultChan():
				if !open {
					return "", false, errors.New("the watch ended")
				}
				machine, ok := event.Object.(*v1alpha1.Machine)
				if !ok {
					continue
				}
				ready := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.ReadyCondition)
				if ready != nil && (ready.Status == metav1.ConditionTrue) == (want == metav1.ConditionTrue) {
					return fmt.Sprintf("Ready=%s, %s", ready.Status, ready.Reason), true, nil
				}
			case <-ctx.Done():
				return "", false, ctx.Err()
			}
		}
	}
}
