//go:build linux

package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

// startsWithMachines reports whether the set gives its clusters machines. It has one template, so that several versions are not its matter.
func (o *upOptions) startsWithMachines() bool {
	return o.workers.machines > 0 && len(o.workers.versions) <= 1
}

// newSet is the set of the workload clusters.
func (o *upOptions) newSet() (*v1alpha1.SimulatedClusterSet, error) {
	set := &v1alpha1.SimulatedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: localfleet.SetName}}
	set.Spec.Replicas = new(int32(o.clusters))
	set.Spec.HostSelector.MatchLabels = map[string]string{v1alpha1.HostsLabel: v1alpha1.HostsSimulatedClusters}
	if o.workers.machines > 0 {
		set.Spec.Template.Spec.MachineClasses = []v1alpha1.InitialMachineClass{localfleet.InitialClass(o.Heartbeats)}
	}
	if o.startsWithMachines() {
		workers, err := localfleet.InitialWorkers(int32(o.workers.machines), o.workers.versionOf(0), o.Heartbeats)
		if err != nil {
			return nil, err
		}
		set.Spec.Template.Spec.MachineDeployments = []v1alpha1.InitialMachineDeployment{workers}
	}
	return set, nil
}

// createSet creates the set when its host is ready, waits until it has made the SimulatedClusters that are wanted then, and returns their
// names in the order of their ordinals.
func (o *upOptions) createSet(ctx context.Context, c client.WithWatch) ([]string, error) {
	if err := awaitReady(ctx, c, localfleet.HostName); err != nil {
		return nil, fmt.Errorf("waiting for cluster %s to be ready: %w", localfleet.HostName, err)
	}
	o.printf("  %s: ready", localfleet.HostName)
	set, err := o.newSet()
	if err != nil {
		return nil, err
	}
	if err := c.Create(ctx, set); err != nil && !apierrors.IsAlreadyExists(err) { // A start that is continued finds its set.
		return nil, fmt.Errorf("creating SimulatedClusterSet %s: %w", set.Name, err)
	}
	err = cmdutil.Until(ctx, c, &v1alpha1.SimulatedClusterSetList{}, client.ObjectKeyFromObject(set), &v1alpha1.SimulatedClusterSet{},
		func(set *v1alpha1.SimulatedClusterSet) (bool, error) {
			isDone := set.Status.ObservedGeneration == set.Generation && int(set.Status.Replicas) == v1alpha1.DesiredReplicas(set.Spec.Replicas)
			return isDone, explainStall("SimulatedClusterSet "+set.Name, set.Generation, set.Status.Conditions)
		})
	if err != nil && cmdutil.Code(err) != cmdutil.Missing { // A user may have deleted it already.
		return nil, fmt.Errorf("waiting for SimulatedClusterSet %s: %w", set.Name, err)
	}
	return listMembers(ctx, c)
}

// listMembers returns the names of the set's clusters in the order of their ordinals.
func listMembers(ctx context.Context, c client.Client) ([]string, error) {
	list := &v1alpha1.SimulatedClusterList{}
	if err := c.List(ctx, list, client.InNamespace(localfleet.HostName), client.MatchingLabels{v1alpha1.SimulatedClusterSetNameLabel: localfleet.SetName}); err != nil {
		return nil, fmt.Errorf("listing the clusters of SimulatedClusterSet %s: %w", localfleet.SetName, err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	return names, nil
}

// roomPatience is how long a cluster may not fit: those that start take more than they need later.
const roomPatience, roomGlance = 2 * time.Minute, 5 * time.Second

// awaitMember waits for a cluster of the set, and gives it the label by which a MachineFleet starts with one of them.
func (o *upOptions) awaitMember(ctx context.Context, c client.WithWatch, index int, name string) error {
	full, err := awaitSimulated(ctx, c, name)
	for begin := time.Now(); full && time.Since(begin) < roomPatience; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(roomGlance):
		}
		full, err = awaitSimulated(ctx, c, name)
	}
	if err != nil {
		return fmt.Errorf("waiting for simulated cluster %s to be ready: %w", name, err)
	}
	cluster := &v1alpha1.Cluster{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
		return fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	if _, known := cluster.Labels[localfleet.StageLabel]; known {
		return nil // A start that is continued changes nothing that is there.
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, localfleet.StageLabel, localfleet.StageOf(index))
	if err := c.Patch(ctx, cluster, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("labelling Cluster %s: %w", name, err)
	}
	return nil
}

// awaitSimulated waits for a simulated cluster, and reports whether the host has no room for it now.
func awaitSimulated(ctx context.Context, c client.WithWatch, name string) (full bool, err error) {
	err = cmdutil.Until(ctx, c, &v1alpha1.SimulatedClusterList{}, client.ObjectKey{Namespace: localfleet.HostName, Name: name}, &v1alpha1.SimulatedCluster{},
		func(one *v1alpha1.SimulatedCluster) (bool, error) {
			conditions := one.Status.Conditions
			if plane := meta.FindStatusCondition(conditions, v1alpha1.ControlPlaneReadyCondition); plane != nil && plane.Reason == v1alpha1.ReasonInsufficientResources {
				full = true
				return false, cmdutil.Refusal("it does not fit: %s", plane.Message)
			}
			return meta.IsStatusConditionTrue(conditions, v1alpha1.ReadyCondition), explainStall("simulated cluster "+one.Name, one.Generation, conditions)
		})
	return full, err
}

// explainStall is the error of an object that waits for a user.
func explainStall(what string, generation int64, conditions []metav1.Condition) error {
	stalled := meta.FindStatusCondition(conditions, v1alpha1.StalledCondition)
	if stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.ObservedGeneration == generation {
		return cmdutil.Refusal("%s makes no progress: %s", what, stalled.Message)
	}
	return nil
}
