package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Departed is a cluster that does not belong to a fleet any more, in which a MachineDeployment of the fleet is left.
type Departed struct {
	Cluster    string
	Deployment *v1alpha1.MachineDeployment
	// Orphaned: the Cluster object is gone, so no agent manages the Machines.
	Orphaned bool
	// Denied: the Cluster exists and matches, but is not accepted.
	Denied bool
	// Removed: the fleet deletes the MachineDeployment.
	Removed bool
}

// Departed lists, by name, the clusters that have left the fleet and what is left in them. Nothing is known of a fleet whose spec cannot be
// used.
func (p *Preview) Departed(ctx context.Context, reader client.Reader) ([]Departed, error) {
	if p.selected == nil {
		return nil, nil
	}
	deployments := &v1alpha1.MachineDeploymentList{}
	if err := reader.List(ctx, deployments, client.MatchingFields{DeploymentName: p.Fleet.Name}); err != nil {
		return nil, fmt.Errorf("listing machine deployments: %w", err)
	}
	var all []Departed
	for i := range deployments.Items {
		deployment := &deployments.Items[i]
		if name := deployment.Namespace; Owns(p.Fleet, deployment) && !p.selected[name] {
			one := Departed{Cluster: name, Deployment: deployment}
			cluster := &v1alpha1.Cluster{}
			err := reader.Get(ctx, client.ObjectKey{Name: name}, cluster)
			if client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("reading cluster %s: %w", name, err)
			}
			one.Orphaned = apierrors.IsNotFound(err)
			one.Removed = p.Fleet.Spec.RemovalPolicy == v1alpha1.RemovalDelete
			one.Denied = !one.Orphaned && !cluster.Accepted()
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b Departed) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return all, nil
}

// Explain says why the cluster is not the fleet's, what is left there, and what to do.
func (d *Departed) Explain() string {
	left := fmt.Sprintf("MachineDeployment %s with %d of its Machines", d.Deployment.Name, d.Deployment.Status.Replicas)
	switch {
	case d.Orphaned:
		return fmt.Sprintf("Cluster %s no longer exists, and %s in its namespace has no agent: kubectl hollow cluster join %s, or delete namespace %s",
			d.Cluster, left, d.Cluster, d.Cluster)
	case d.Denied:
		return fmt.Sprintf("the cluster is not accepted; still there: %s: kubectl hollow cluster accept %s", left, d.Cluster)
	}
	if d.Removed {
		return fmt.Sprintf("the fleet no longer selects it; still there: %s, to be deleted by spec.removalPolicy Delete", left)
	}
	return fmt.Sprintf("the fleet no longer selects it; still there: %s, which the fleet no longer changes: change the cluster's labels, or kubectl delete machinedeployment %s -n %s",
		left, d.Deployment.Name, d.Cluster)
}
