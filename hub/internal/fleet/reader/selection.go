package reader

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
	// selector is that of the spec; nil with a Placement.
	selector labels.Selector
	// placed has the decision groups of the clusters that the Placement has chosen, by their names.
	placed map[string]string
	// partial: the choice is not known, or not in full. No cluster leaves the fleet, and nothing is started.
	partial bool
	// unknown says why the choice is not known; nil if it is, at least in part.
	unknown *Problem
}

// readSelection reads which clusters the fleet has. The error is placement.ErrStarting while that is unknown.
func readSelection(ctx context.Context, from sources, fleet *v1alpha1.MachineFleet) (*selection, *Problem, error) {
	ref := fleet.Spec.PlacementRef
	switch {
	case ref != nil && fleet.Spec.ClusterSelector != nil, ref == nil && fleet.Spec.ClusterSelector == nil:
		return nil, &Problem{v1alpha1.ReasonInvalidFleet, "spec: set exactly one of clusterSelector and placementRef"}, nil
	case ref == nil:
		selector, err := metav1.LabelSelectorAsSelector(fleet.Spec.ClusterSelector)
		if err != nil {
			return nil, &Problem{v1alpha1.ReasonInvalidFleet, fmt.Sprintf("spec.clusterSelector: not a label selector: %v: correct it", err)}, nil
		}
		return &selection{selector: selector}, nil, nil
	}
	reader, err := from.placements()
	var found *placement.Decisions
	if err == nil {
		found, err = placement.Read(ctx, reader, *ref)
	}
	switch {
	case errors.Is(err, placement.ErrNotInstalled):
		return &selection{partial: true, unknown: &Problem{v1alpha1.ReasonPlacementsNotInstalled,
			"spec.placementRef: the hub's API server does not have the kinds Placement and PlacementDecision of Open Cluster Management: install them, or select clusters with spec.clusterSelector"}}, nil, nil
	case errors.Is(err, placement.ErrNotFound):
		return &selection{partial: true, unknown: &Problem{v1alpha1.ReasonPlacementNotFound, fmt.Sprintf(
			"spec.placementRef: there is no Placement %s/%s: create it, or correct the reference", ref.Namespace, ref.Name)}}, nil, nil
	case err != nil:
		return nil, nil, err
	}
	return &selection{placed: found.Groups, partial: !found.Complete()}, nil, nil
}

// hasMember reports whether a cluster is chosen. While that is not known in full, those stay that the fleet has.
func (s *selection) hasMember(m *Member) bool {
	if s.selector != nil {
		return s.selector.Matches(labels.Set(m.Cluster.Labels))
	}
	_, chosen := s.placed[m.Cluster.Name]
	return chosen || s.partial && m.Record != nil
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
	if !s.selection.partial || s.selection.unknown != nil || s.partialSince.IsZero() || s.Now.Sub(s.partialSince) < SettleTime {
		return nil
	}
	ref := s.Fleet.Spec.PlacementRef
	return &Problem{v1alpha1.ReasonPlacementDecisionsIncomplete, fmt.Sprintf(
		"spec.placementRef: the PlacementDecisions of Placement %s/%s have %d clusters, which is not the number in its status, so nothing starts and no cluster leaves the fleet: check that the placement controller of Open Cluster Management runs",
		ref.Namespace, ref.Name, len(s.selection.placed))}
}
