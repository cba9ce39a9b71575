package placement

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
)

// Placed is what a Placement has chosen. The zero value is that of a parent without one.
type Placed struct {
	// Groups has the decision group of each cluster that is chosen, by the cluster's name.
	Groups map[string]string
	// Incomplete: the decisions are not all that the Placement says it has made.
	Incomplete bool
	// Unknown is why it is not known which clusters are chosen; nil if it is, or is Incomplete.
	Unknown *outcome.Wait
}

// ReadPlaced reads what the Placement of ref has chosen. The error is ErrStarting while that is unknown.
func ReadPlaced(ctx context.Context, placements func() (client.Reader, error), ref *v1alpha1.PlacementReference) (Placed, error) {
	reader, err := placements()
	var found *Decisions
	if err == nil {
		found, err = Read(ctx, reader, *ref)
	}
	switch {
	case errors.Is(err, ErrNotInstalled):
		return Placed{Unknown: &outcome.Wait{Reason: v1alpha1.ReasonPlacementsNotInstalled,
			Message: "spec.placementRef: the hub's API server does not have the kinds Placement and PlacementDecision of Open Cluster Management: install them, or select clusters with spec.clusterSelector"}}, nil
	case errors.Is(err, ErrNotFound):
		return Placed{Unknown: &outcome.Wait{Reason: v1alpha1.ReasonPlacementNotFound,
			Message: fmt.Sprintf("spec.placementRef: there is no Placement %s/%s: create it, or correct the reference", ref.Namespace, ref.Name)}}, nil
	case err != nil:
		return Placed{}, err
	}
	return Placed{Groups: found.Groups, Incomplete: !found.Complete()}, nil
}

// Choose returns what tells the clusters that are chosen by exactly one of selector and ref, or an *outcome.Terminal.
func Choose(selector *metav1.LabelSelector, ref *v1alpha1.PlacementReference, placed Placed) (func(*v1alpha1.Cluster) bool, error) {
	if (selector == nil) == (ref == nil) {
		return nil, &outcome.Terminal{Reason: v1alpha1.ReasonInvalidSelector, Message: "spec: set exactly one of clusterSelector and placementRef"}
	}
	if ref != nil {
		return func(cluster *v1alpha1.Cluster) bool {
			_, chosen := placed.Groups[cluster.Name]
			return chosen
		}, nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, &outcome.Terminal{Reason: v1alpha1.ReasonInvalidSelector, Message: fmt.Sprintf("spec.clusterSelector: not a label selector: %v: correct it", err)}
	}
	return func(cluster *v1alpha1.Cluster) bool { return parsed.Matches(labels.Set(cluster.Labels)) }, nil
}
