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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
)

// Selection is what a decision about a parent's clusters rests on.
type Selection struct {
	// Clusters are all clusters of the hub that can be decoded, sorted by name.
	Clusters []v1alpha1.Cluster
	Placed   placement.Placed
}

// Observe reads a Selection. What it gets from the hub's cache stays in there: nothing of it is changed. Ref is nil for a parent without a
// Placement.
func Observe(ctx context.Context, c client.Reader, placements func() (client.Reader, error), ref *v1alpha1.PlacementReference) (Selection, error) {
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
	s.Placed, err = placement.ReadPlaced(ctx, placements, ref)
	if errors.Is(err, placement.ErrStarting) {
		s.Placed.Unknown, err = &outcome.Wait{Reason: v1alpha1.ReasonStarting, Message: "spec.placementRef: the hub has not read the Placements yet"}, nil
	}
	return s, err
}

// Chosen are the accepted clusters that selector or ref choose, by name. The error is an *outcome.Terminal if only another spec helps,
// and an *outcome.Wait while the choice is not known in full.
func (s *Selection) Chosen(selector *metav1.LabelSelector, ref *v1alpha1.PlacementReference) ([]*v1alpha1.Cluster, error) {
	matches, err := placement.Choose(selector, ref, s.Placed)
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
		if cluster := &s.Clusters[i]; cluster.Accepted() && !cluster.IsLeaving() && matches(cluster) {
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
