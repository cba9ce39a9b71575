package machineset

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/tally"
)

// livePage is how many Machines one live read asks for: it bounds the hub's memory, not the result.
const livePage = 500

// scope is all that one reconciliation knows.
type scope struct {
	set    *v1alpha1.MachineSet
	frozen freeze.Verdict
	input  plan.Input
	// counts are of the Machines that the set owns.
	counts tally.Counts
}

// observe reads what counts for set. Options narrow the Machines to be read.
func (c *Controller) observe(ctx context.Context, reader client.Reader, set *v1alpha1.MachineSet, now time.Time, options ...client.ListOption) (*scope, error) {
	s := &scope{set: set}
	var err error
	if s.frozen, err = c.frozen(ctx, reader, set); err != nil {
		return nil, err
	}
	s.input = plan.Input{
		Replicas: replicas(set), Frozen: s.frozen.Frozen, Deleting: set.DeletionTimestamp != nil,
	}
	selector := labels.SelectorFromSet(set.Spec.Selector.MatchLabels)
	minReady := time.Duration(set.Spec.MinReadySeconds) * time.Second
	// Nothing below changes a Machine, so the cache need not copy them.
	options = append(options, client.InNamespace(set.Namespace), client.UnsafeDisableDeepCopy)
	err = tally.Each(ctx, reader, func(machine *v1alpha1.Machine) { s.add(machine, selector, minReady, now) }, options...)
	return s, err
}

func (s *scope) add(machine *v1alpha1.Machine, selector labels.Selector, minReady time.Duration, now time.Time) {
	controller := metav1.GetControllerOfNoCopy(machine)
	owned := controller != nil && controller.UID == s.set.UID
	if controller != nil && !owned {
		return
	}
	matches := selector.Matches(labels.Set(machine.Labels))
	if !owned && !matches {
		return
	}
	state := tally.Of(machine, minReady, now)
	if owned {
		s.counts.Add(state)
	}
	s.input.Machines = append(s.input.Machines, plan.Machine{
		Name: machine.Name, UID: machine.UID, Created: machine.CreationTimestamp.Time,
		Owned: owned, Orphan: controller == nil, Matches: matches,
		Deleting: state.Deleting, Marked: state.Marked, Failed: state.Failed, Ready: state.Ready,
	})
}

// frozen says whether anything freezes set: itself, its cluster or its deployment.
func (c *Controller) frozen(ctx context.Context, reader client.Reader, set *v1alpha1.MachineSet) (freeze.Verdict, error) {
	cluster := &v1alpha1.Cluster{}
	err := reader.Get(ctx, client.ObjectKey{Name: set.Spec.ClusterName}, cluster)
	if apierrors.IsNotFound(err) {
		cluster = nil
	} else if err != nil {
		return freeze.Verdict{}, fmt.Errorf("getting cluster %s: %w", set.Spec.ClusterName, err)
	}
	own := freeze.First(
		freeze.OfAnnotation("MachineSet", set),
		freeze.OfCluster(set.Spec.ClusterName, set.Namespace, cluster),
		c.Agents.Verdict(cluster),
	)
	owner := metav1.GetControllerOf(set)
	if own.Frozen || owner == nil || owner.Kind != "MachineDeployment" {
		return own, nil
	}
	deployment := &v1alpha1.MachineDeployment{}
	err = reader.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: owner.Name}, deployment)
	if apierrors.IsNotFound(err) {
		return own, nil
	} else if err != nil {
		return freeze.Verdict{}, fmt.Errorf("getting machine deployment %s: %w", owner.Name, err)
	}
	return freeze.First(
		freeze.OfAnnotation("MachineDeployment", deployment),
		freeze.OfCondition("MachineDeployment", deployment, deployment.Status.Conditions),
	), nil
}

// replicas is spec.replicas; the API server has filled in the default.
func replicas(set *v1alpha1.MachineSet) int {
	if set.Spec.Replicas == nil {
		return 1
	}
	return int(*set.Spec.Replicas)
}
