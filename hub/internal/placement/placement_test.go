package placement

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// stored answers with one Placement and its decisions.
type stored struct {
	placement clusterv1beta1.Placement
	decisions []clusterv1beta1.PlacementDecision
}

func (s *stored) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.placement.DeepCopyInto(into.(*clusterv1beta1.Placement))
	return nil
}

func (s *stored) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.(*clusterv1beta1.PlacementDecisionList).Items = s.decisions
	return nil
}

func decision(owner types.UID, clusters ...string) clusterv1beta1.PlacementDecision {
	d := clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: new(true)}}}}
	for _, cluster := range clusters {
		d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: cluster})
	}
	return d
}

// deleted is a decision that a finalizer keeps for a while.
func deleted(d clusterv1beta1.PlacementDecision) clusterv1beta1.PlacementDecision {
	d.DeletionTimestamp = new(metav1.Now())
	return d
}

// What is being deleted chooses nothing, and is no order either: the fleet is told that the Placement does not exist.
func TestAPlacementThatIsBeingDeletedIsNotFound(t *testing.T) {
	from := &stored{decisions: []clusterv1beta1.PlacementDecision{decision("p", "a")}}
	from.placement.UID, from.placement.Status.NumberOfSelectedClusters, from.placement.DeletionTimestamp = "p", 1, new(metav1.Now())
	_, err := Read(t.Context(), from, v1alpha1.PlacementReference{Namespace: "n", Name: "p"})
	NewWithT(t).Expect(err).To(MatchError(ErrNotFound))
}

func TestDecisionsAreCompleteByTheClustersInThem(t *testing.T) {
	cases := map[string]struct {
		decisions []clusterv1beta1.PlacementDecision
		wanted    int32
		clusters  []string
		complete  bool
	}{
		"none":                                  {complete: true},
		"over two objects":                      {[]clusterv1beta1.PlacementDecision{decision("p", "a", "b"), decision("p", "c")}, 3, []string{"a", "b", "c"}, true},
		"one object is missing":                 {[]clusterv1beta1.PlacementDecision{decision("p", "a", "b")}, 3, []string{"a", "b"}, false},
		"one is in both, and another in none":   {[]clusterv1beta1.PlacementDecision{decision("p", "a", "c"), decision("p", "c")}, 3, []string{"a", "c"}, false},
		"the number is written after them":      {[]clusterv1beta1.PlacementDecision{decision("p", "a", "b")}, 1, []string{"a", "b"}, false},
		"not scheduled yet":                     {[]clusterv1beta1.PlacementDecision{decision("p", "a", "")}, 1, []string{"a"}, true},
		"of an earlier Placement of this name":  {[]clusterv1beta1.PlacementDecision{decision("older", "a"), decision("p", "b")}, 1, []string{"b"}, true},
		"one is being deleted":                  {[]clusterv1beta1.PlacementDecision{deleted(decision("p", "a")), decision("p", "b")}, 1, []string{"b"}, true},
		"more than the number":                  {[]clusterv1beta1.PlacementDecision{decision("p", "a", "b"), decision("p", "c")}, 2, []string{"a", "b", "c"}, false},
		"all of an earlier one, new ones later": {[]clusterv1beta1.PlacementDecision{decision("older", "a")}, 1, nil, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g, from := NewWithT(t), &stored{decisions: c.decisions}
			from.placement.UID, from.placement.Status.NumberOfSelectedClusters = "p", c.wanted
			found, err := Read(t.Context(), from, v1alpha1.PlacementReference{Namespace: "n", Name: "p"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found.Groups).To(HaveLen(len(c.clusters)))
			for _, cluster := range c.clusters {
				g.Expect(found.Groups).To(HaveKey(cluster))
			}
			g.Expect(found.Complete()).To(Equal(c.complete))
		})
	}
}
