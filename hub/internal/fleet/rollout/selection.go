package rollout

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement"
)

// SettleTime is how long the decisions of a Placement have to say the same before it counts that they are not complete, or that
// a cluster has left: Open Cluster Management writes one object after the other, and the clusters in them may change places.
const SettleTime = 30 * time.Second

// sources is where a step reads from.
type sources struct {
	client.Reader
	// live: it is the API server, and not the cache.
	live bool
	// placements returns a reader of Placements.
	placements func() (client.Reader, error)
}

// selection is which clusters a fleet has.
type selection struct {
	matches func(*v1alpha1.Cluster) bool
	// Placed is what the Placement has chosen, if the fleet has one.
	placement.Placed
}

// isPartial reports whether the choice is not known, or not in full. Then no cluster leaves the fleet, and nothing is started.
func (s *selection) isPartial() bool { return s.Unknown != nil || s.Incomplete }

// readSelection reads which clusters the fleet has. The error is placement.ErrStarting while that is unknown.
func readSelection(ctx context.Context, from sources, fleet *v1alpha1.MachineFleet) (*selection, *Problem, error) {
	ref, placed := fleet.Spec.PlacementRef, placement.Placed{}
	if ref != nil && fleet.Spec.ClusterSelector == nil {
		var err error
		if placed, err = placement.ReadPlaced(ctx, from.placements, ref); err != nil {
			return nil, nil, err
		}
	}
	matches, invalid := placement.Choose(fleet.Spec.ClusterSelector, ref, placed)
	if invalid != nil {
		return nil, &Problem{v1alpha1.ReasonInvalidFleet, invalid.Error()}, nil //nolint:nilerr // The Problem says it.
	}
	return &selection{matches, placed}, nil, nil
}

// hasMember reports whether a cluster is chosen. While that is not known in full, those stay that the fleet has.
func (s *selection) hasMember(m *Member) bool {
	return s.matches(m.Cluster) || s.isPartial() && m.Record != nil
}

// selectionField is the field of the spec that chooses the fleet's clusters.
func selectionField(fleet *v1alpha1.MachineFleet) string {
	if fleet.Spec.PlacementRef != nil {
		return "spec.placementRef"
	}
	return "spec.clusterSelector"
}

// chosenBy says by what the fleet's clusters are chosen, and what a user can do when it chooses none.
func chosenBy(fleet *v1alpha1.MachineFleet) (what, remedy string) {
	if ref := fleet.Spec.PlacementRef; ref != nil {
		what = fmt.Sprintf("Placement %s/%s selects no accepted Cluster", ref.Namespace, ref.Name)
		return what, "correct the Placement, or the labels and taints of the ManagedClusters"
	}
	return "no accepted Cluster matches it", "correct the selector or the Clusters' labels"
}

// incompletePlacement says that the decisions of the Placement are not what it says, if that has been so for long.
func (s *Scope) incompletePlacement() *Problem {
	if !s.selection.Incomplete || s.partialSince.IsZero() || s.Now.Sub(s.partialSince) < SettleTime {
		return nil
	}
	ref := s.Fleet.Spec.PlacementRef
	return &Problem{v1alpha1.ReasonPlacementDecisionsIncomplete, fmt.Sprintf(
		"spec.placementRef: the PlacementDecisions of Placement %s/%s have %d clusters, which is not the number in its status, so nothing starts and no cluster leaves the fleet: check that the placement controller of Open Cluster Management runs",
		ref.Namespace, ref.Name, len(s.selection.Groups))}
}
