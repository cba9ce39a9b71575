package machinedeployment

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
)

// observeLive reads all that deployment's next step rests on from the API server, at once: every step of a rollout waits
// for it. It also returns the Machines. It returns nil if the deployment is gone, was recreated, or has another spec now; its event is on
// the way.
//
// A namespace may have thousands of deployments, so it asks for what carries the name of this one. A user can take that label away: what
// known, the view of the cache, has beside it is read by its name.
func (c *Controller) observeLive(ctx context.Context, deployment *v1alpha1.MachineDeployment, known *scope, worked map[types.UID]int64, now time.Time) (*scope, []*v1alpha1.Machine, error) {
	var s *scope
	var machines []*v1alpha1.Machine
	seen := make(chan struct{})
	reads, ctx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		defer close(seen)
		s, err = c.newLiveScope(ctx, deployment, known, worked, now)
		return err
	})
	reads.Go(func() error {
		return c.eachMachineLive(ctx, deployment, known, func(machine *v1alpha1.Machine) {
			if <-seen; s != nil {
				s.addMachine(machine)
				machine.ManagedFields = nil // They are not needed, and they are nearly half of it.
				machines = append(machines, machine)
			}
		})
	})
	if err := reads.Wait(); err != nil || s == nil {
		return nil, nil, err
	}
	c.countMachines(s)
	return s, machines, nil
}

// newLiveScope reads all but the Machines.
func (c *Controller) newLiveScope(ctx context.Context, deployment *v1alpha1.MachineDeployment, known *scope, worked map[types.UID]int64, now time.Time) (*scope, error) {
	current := &v1alpha1.MachineDeployment{}
	var around related
	reads, ctx := errgroup.WithContext(ctx)
	reads.Go(func() error {
		if err := c.Live.Get(ctx, client.ObjectKeyFromObject(deployment), current); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the machine deployment again: %w", err)
		}
		return nil
	})
	reads.Go(func() (err error) {
		around, err = c.listRelated(ctx, c.Live, deployment, func(ctx context.Context) ([]v1alpha1.MachineSet, error) {
			return c.listSetsLive(ctx, deployment, known.setsBeside())
		})
		return err
	})
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	if current.UID != deployment.UID || current.Generation != deployment.Generation {
		return nil, nil
	}
	s, err := c.newScope(current, around, worked, now)
	if err != nil {
		return nil, err
	}
	for uid := range known.others {
		s.others[uid] = s.machines[uid] == nil
	}
	return s, nil
}

// setsBeside are the sets that concern the deployment, with or without its name.
func (s *scope) setsBeside() []*v1alpha1.MachineSet {
	var beside []*v1alpha1.MachineSet
	for _, sets := range [][]*v1alpha1.MachineSet{s.sets, s.orphans, s.leftovers, s.strangers} {
		beside = append(beside, sets...)
	}
	return beside
}

// listSetsLive lists the sets that carry the deployment's name, and those of beside that do not. Of a deployment that shares its surge it
// lists all of the namespace: those of its peers count.
func (c *Controller) listSetsLive(ctx context.Context, deployment *v1alpha1.MachineDeployment, beside []*v1alpha1.MachineSet) ([]v1alpha1.MachineSet, error) {
	list := &v1alpha1.MachineSetList{}
	options := []client.ListOption{client.InNamespace(deployment.Namespace)}
	if deployment.Spec.Strategy.SurgeGroup() == "" {
		options = append(options, client.MatchingLabels{v1alpha1.MachineDeploymentNameLabel: deployment.Name})
	}
	if err := c.Live.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("listing machine sets: %w", err)
	}
	missing := map[string]bool{}
	for _, set := range beside {
		missing[set.Name] = true
	}
	for i := range list.Items {
		delete(missing, list.Items[i].Name)
	}
	if len(missing) > machines.MostRereads {
		err := c.Live.List(ctx, list, client.InNamespace(deployment.Namespace))
		return list.Items, err
	}
	for name := range missing {
		set := &v1alpha1.MachineSet{}
		err := c.Live.Get(ctx, client.ObjectKey{Namespace: deployment.Namespace, Name: name}, set)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading machine set %s again: %w", name, err)
		} else if err == nil {
			list.Items = append(list.Items, *set)
		}
	}
	return list.Items, nil
}

// eachMachineLive calls do with the deployment's Machines. Of a deployment that shares its surge they are all of the namespace.
func (c *Controller) eachMachineLive(ctx context.Context, deployment *v1alpha1.MachineDeployment, known *scope, do func(*v1alpha1.Machine)) error {
	if deployment.Spec.Strategy.SurgeGroup() != "" {
		return machines.Each(ctx, c.Live, do, client.InNamespace(deployment.Namespace), client.Limit(machines.LivePage))
	}
	labels := client.MatchingLabels{v1alpha1.MachineDeploymentNameLabel: deployment.Name}
	return machines.EachOf(ctx, c.Live, deployment.Namespace, labels, known.machineNames(), do)
}

// machineNames are the Machines of the deployment and its orphans.
func (s *scope) machineNames() map[string]bool {
	names := map[string]bool{}
	for _, set := range s.machines {
		for _, machine := range set.facts {
			names[machine.Name] = true
		}
	}
	for _, machine := range s.ownerless.facts {
		names[machine.Name] = true
	}
	return names
}
