// Package fanout has what NodeDisruptions and LoadTests share: the parent on the hub chooses clusters and has one run in the namespace of
// each, which that cluster's agent carries out.
package fanout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement/presence"
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

// ReadPlacement reads what the Placement of ref has chosen. The error is placement.ErrStarting while that is unknown.
func ReadPlacement(ctx context.Context, placements func() (client.Reader, error), ref *v1alpha1.PlacementReference) (Placed, error) {
	reader, err := placements()
	var found *placement.Decisions
	if err == nil {
		found, err = placement.Read(ctx, reader, *ref)
	}
	switch {
	case errors.Is(err, placement.ErrNotInstalled):
		return Placed{Unknown: &outcome.Wait{Reason: v1alpha1.ReasonPlacementsNotInstalled,
			Message: "spec.placementRef: the hub's API server does not have the kinds Placement and PlacementDecision of Open Cluster Management: install them, or select clusters with spec.clusterSelector"}}, nil
	case errors.Is(err, placement.ErrNotFound):
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

// Selection is what a decision about a parent's clusters rests on.
type Selection struct {
	// Clusters are all clusters of the hub that can be decoded, sorted by name.
	Clusters []v1alpha1.Cluster
	Placed   Placed
}

// Observe reads a Selection from the hub's cache, which keeps what is in it. Ref is nil for a parent without a Placement.
func Observe(ctx context.Context, c client.Reader, placements *presence.Kinds, ref *v1alpha1.PlacementReference) (Selection, error) {
	var s Selection
	list := &v1alpha1.ClusterList{}
	if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return s, fmt.Errorf("listing clusters: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].DecodeError == "" {
			s.Clusters = append(s.Clusters, list.Items[i])
		}
	}
	slices.SortFunc(s.Clusters, func(a, b v1alpha1.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	if ref == nil {
		return s, nil
	}
	var err error
	s.Placed, err = ReadPlacement(ctx, placements.Cached, ref)
	if errors.Is(err, placement.ErrStarting) {
		s.Placed.Unknown, err = &outcome.Wait{Reason: v1alpha1.ReasonStarting, Message: "spec.placementRef: the hub has not read the Placements yet"}, nil
	}
	return s, err
}

// Chosen are the accepted clusters that selector or ref choose, by name. The error is an *outcome.Terminal if only another spec helps,
// and an *outcome.Wait while the choice is not known in full.
func (s *Selection) Chosen(selector *metav1.LabelSelector, ref *v1alpha1.PlacementReference) ([]*v1alpha1.Cluster, error) {
	matches, err := Choose(selector, ref, s.Placed)
	switch {
	case err != nil:
		return nil, err
	case s.Placed.Unknown != nil:
		return nil, s.Placed.Unknown
	case s.Placed.Incomplete:
		return nil, &outcome.Wait{Reason: v1alpha1.ReasonPlacementDecisionsIncomplete, Message: fmt.Sprintf(
			"spec.placementRef: the decisions of Placement %s/%s are not complete yet", ref.Namespace, ref.Name)}
	}
	var chosen []*v1alpha1.Cluster
	for i := range s.Clusters {
		if cluster := &s.Clusters[i]; cluster.Accepted() && matches(cluster) {
			chosen = append(chosen, cluster)
		}
	}
	return chosen, nil
}

// WhyNotStart says why nothing may start in the cluster of a name now; empty if it may.
func (s *Selection) WhyNotStart(name string) string {
	return freeze.OfStart(name, s.Named(name)).Message
}

// Named is the cluster of a name; nil if there is none.
func (s *Selection) Named(name string) *v1alpha1.Cluster {
	i, found := slices.BinarySearchFunc(s.Clusters, name, func(cluster v1alpha1.Cluster, name string) int { return cmp.Compare(cluster.Name, name) })
	if !found {
		return nil
	}
	return &s.Clusters[i]
}
