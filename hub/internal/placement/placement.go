// Package placement reads which clusters the Placements of Open Cluster Management choose, while the hub's API server has
// that kind.
package placement

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var (
	// ErrNotInstalled says that the API server does not have the kinds Placement and PlacementDecision.
	ErrNotInstalled = errors.New("the kinds Placement and PlacementDecision of Open Cluster Management are not installed")
	// ErrNotFound says that the Placement does not exist.
	ErrNotFound = errors.New("the Placement does not exist")
	// ErrStarting says that this process does not know yet whether the kinds are installed, or has not read the objects yet.
	ErrStarting = errors.New("the Placements have not been read yet")
)

// AddToScheme makes the kinds known.
func AddToScheme(known *runtime.Scheme) error { return clusterv1beta1.Install(known) }

// Decisions are what a Placement has chosen.
type Decisions struct {
	// Groups has the decision group of each cluster, by the cluster's name. A group may have no name.
	Groups map[string]string
	// Wanted is how many clusters the Placement says it has chosen.
	Wanted int
}

// Complete reports whether the decisions are all that the Placement has made. They are written one object after the other, and
// the number after them.
func (d *Decisions) Complete() bool { return len(d.Groups) == d.Wanted }

// Read reads the decisions of a Placement.
func Read(ctx context.Context, reader client.Reader, of v1alpha1.PlacementReference) (*Decisions, error) {
	placement := &clusterv1beta1.Placement{}
	switch err := reader.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, placement); {
	case meta.IsNoMatchError(err):
		return nil, ErrNotInstalled
	case apierrors.IsNotFound(err):
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("getting placement %s/%s: %w", of.Namespace, of.Name, err)
	case placement.DeletionTimestamp != nil:
		return nil, ErrNotFound
	}
	list := &clusterv1beta1.PlacementDecisionList{}
	err := reader.List(ctx, list, client.InNamespace(of.Namespace), client.MatchingLabels{clusterv1beta1.PlacementLabel: of.Name})
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, ErrNotInstalled
	}
	if err != nil {
		return nil, fmt.Errorf("listing the decisions of placement %s/%s: %w", of.Namespace, of.Name, err)
	}
	found := &Decisions{Groups: map[string]string{}, Wanted: int(placement.Status.NumberOfSelectedClusters)}
	for i := range list.Items {
		decision := &list.Items[i]
		// Those of an earlier Placement of this name go away with it, by the garbage collector.
		if owner := metav1.GetControllerOf(decision); owner != nil && owner.UID != placement.UID || decision.DeletionTimestamp != nil {
			continue
		}
		for _, chosen := range decision.Status.Decisions {
			if chosen.ClusterName != "" {
				found.Groups[chosen.ClusterName] = decision.Labels[clusterv1beta1.DecisionGroupNameLabel]
			}
		}
	}
	return found, nil
}
