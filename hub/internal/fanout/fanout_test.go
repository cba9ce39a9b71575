package fanout

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
)

var ref = &v1alpha1.PlacementReference{Namespace: "n", Name: "p"}

// placements has one Placement with one decision.
type placements struct {
	client.Reader
	wanted int32
}

func (p placements) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	into.(*clusterv1beta1.Placement).Status.NumberOfSelectedClusters = p.wanted
	return nil
}

func (p placements) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	decision := clusterv1beta1.PlacementDecision{}
	decision.Labels = map[string]string{clusterv1beta1.DecisionGroupNameLabel: "canary"}
	decision.Status.Decisions = []clusterv1beta1.ClusterDecision{{ClusterName: "c1"}}
	into.(*clusterv1beta1.PlacementDecisionList).Items = []clusterv1beta1.PlacementDecision{decision}
	return nil
}

func TestWhatAPlacementHasChosen(t *testing.T) {
	failed := errors.New("no connection")
	for name, test := range map[string]struct {
		reader client.Reader
		err    error
		want   placement.Placed
		fails  error
	}{
		"chosen":        {placements{wanted: 1}, nil, placement.Placed{Groups: map[string]string{"c1": "canary"}}, nil},
		"incomplete":    {placements{wanted: 2}, nil, placement.Placed{Groups: map[string]string{"c1": "canary"}, Incomplete: true}, nil},
		"not installed": {nil, placement.ErrNotInstalled, placement.Placed{Unknown: &outcome.Wait{Reason: v1alpha1.ReasonPlacementsNotInstalled}}, nil},
		"not found":     {nil, fmt.Errorf("x: %w", placement.ErrNotFound), placement.Placed{Unknown: &outcome.Wait{Reason: v1alpha1.ReasonPlacementNotFound}}, nil},
		"not read yet":  {nil, placement.ErrStarting, placement.Placed{}, placement.ErrStarting},
		"an error":      {nil, failed, placement.Placed{}, failed},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			placed, err := placement.ReadPlaced(t.Context(), func() (client.Reader, error) { return test.reader, test.err }, ref)
			if test.fails != nil {
				g.Expect(err).To(MatchError(test.fails))
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
			if placed.Unknown != nil {
				g.Expect(placed.Unknown.Message).To(HavePrefix("spec.placementRef: "))
				placed.Unknown.Message = ""
			}
			g.Expect(placed).To(Equal(test.want))
		})
	}
}

// Claim: Disruptions and load tests choose clusters by one rule: exactly one of selector and Placement, accepted clusters only. Broken: a selector that is missing chooses all; clusters that are not accepted are chosen.
func TestChosenClusters(t *testing.T) {
	selector := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"stage": value}}
	}
	invalid := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
	known := placement.Placed{Groups: map[string]string{"c1": "", "c2": "", "gone": ""}}
	for name, test := range map[string]struct {
		selector *metav1.LabelSelector
		ref      *v1alpha1.PlacementReference
		placed   placement.Placed
		chosen   string
		waits    bool
		says     string
	}{
		"all":                     {selector: &metav1.LabelSelector{}, chosen: "[c1 c3]"},
		"some":                    {selector: selector("prod"), chosen: "[c3]"},
		"none":                    {selector: selector("x"), chosen: "[]"},
		"a selector that is none": {selector: invalid, says: "spec.clusterSelector: not a label selector"},
		"both":                    {selector: selector("prod"), ref: ref, placed: known, says: "exactly one of clusterSelector and placementRef"},
		"neither":                 {says: "exactly one of clusterSelector and placementRef"},
		"placed":                  {ref: ref, placed: known, chosen: "[c1]"},
		"placed nowhere":          {ref: ref, chosen: "[]"},
		"placed in part":          {ref: ref, placed: placement.Placed{Groups: known.Groups, Incomplete: true}, waits: true, says: "not complete yet"},
		"unknown":                 {ref: ref, placed: placement.Placed{Unknown: &outcome.Wait{Message: "there is none"}}, waits: true, says: "there is none"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := Selection{Placed: test.placed}
			for i, stage := range []string{"test", "prod", "prod"} {
				cluster := v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i+1), Labels: map[string]string{"stage": stage}}}
				if i != 1 {
					cluster.Spec.Acceptance = v1alpha1.AcceptanceAccepted
				}
				s.Clusters = append(s.Clusters, cluster)
			}
			chosen, err := s.Chosen(test.selector, test.ref)
			if test.says != "" {
				var wait *outcome.Wait
				g.Expect(err).To(MatchError(ContainSubstring(test.says)))
				g.Expect(errors.As(err, &wait)).To(Equal(test.waits))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			names := []string{}
			for _, cluster := range chosen {
				names = append(names, cluster.Name)
				g.Expect(s.Named(cluster.Name)).To(BeIdenticalTo(cluster))
			}
			g.Expect(fmt.Sprint(names)).To(Equal(test.chosen))
			g.Expect(s.Named("c4")).To(BeNil())
			g.Expect(s.WhyNotStart("c4")).To(ContainSubstring("there is no Cluster"))
		})
	}
}

func TestWhoseARunIs(t *testing.T) {
	g := NewWithT(t)
	parent := Parent{Object: &v1alpha1.LoadTest{ObjectMeta: metav1.ObjectMeta{Name: "rush", UID: "new"}}, Kind: "LoadTest", Label: "l"}
	meta := parent.NewMeta("c1", "rush")
	g.Expect(meta).To(And(HaveField("Namespace", "c1"), HaveField("Name", "rush"), HaveField("Labels", HaveKeyWithValue("l", "rush"))))
	owned := func(change func(*metav1.OwnerReference)) Owner {
		object := &v1alpha1.LoadTestRun{ObjectMeta: *meta.DeepCopy()}
		change(&object.OwnerReferences[0])
		return parent.OwnerOf(object)
	}
	g.Expect(owned(func(*metav1.OwnerReference) {})).To(Equal(Ours))
	g.Expect(owned(func(o *metav1.OwnerReference) { o.UID = types.UID("old") })).To(Equal(Leftover))
	g.Expect(owned(func(o *metav1.OwnerReference) { o.UID, o.Kind = "old", "NodeDisruption" })).To(Equal(Others))
	g.Expect(owned(func(o *metav1.OwnerReference) { o.UID, o.Name = "old", "other" })).To(Equal(Others))
	g.Expect(owned(func(o *metav1.OwnerReference) { o.Controller = nil })).To(Equal(Others))
}

func TestFailuresAreBoundedAndNameAClusterOnce(t *testing.T) {
	g := NewWithT(t)
	var failures []v1alpha1.ClusterFailure
	for range 2 {
		for i := range MostFailures + 5 {
			NoteFailure(&failures, fmt.Sprintf("c%d", i), fmt.Sprintf("%*d", 2*MostMessage, i))
		}
	}
	g.Expect(failures).To(HaveLen(MostFailures))
	g.Expect(failures).To(HaveEach(HaveField("Message", WithTransform(utf8.RuneCountInString, BeNumerically("<=", MostMessage)))))
	NoteFailure(&failures, "c1", "it is another now")
	g.Expect(FailureOf(failures, "c1", "")).To(Equal("it is another now"))
	g.Expect(FailureOf(failures, "c24", "not named")).To(Equal("not named"))
}
