package rollout

import (
	"context"
	"fmt"
	"slices"
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

// selectors are those of a fleet's spec.
type selectors struct {
	overrides []labels.Selector
	// groups are nil for the decision groups of a Placement.
	groups []labels.Selector
	// own is the fleet's template, and templates are those of the overrides; nil for one that has none.
	own       *template
	templates []*template
	used      map[string]bool
	// unchanged is the hash of the fleet's template with an override that changes nothing.
	unchanged string
}

// newSelectors reads the selectors of a fleet.
func newSelectors(fleet *v1alpha1.MachineFleet, spelled Spelling) (*selectors, *Problem) {
	all := &selectors{used: map[string]bool{}}
	var invalid *Problem
	if all.own, all.templates, invalid = readTemplates(fleet, spelled); invalid != nil {
		return nil, invalid
	}
	var err error
	if all.unchanged, err = UnchangedHash(all.own.MachineDeploymentTemplate); err != nil {
		return nil, &Problem{v1alpha1.ReasonInvalidFleet, "spec.template" + err.Error()}
	}
	read := func(field string, from *metav1.LabelSelector) (labels.Selector, *Problem) {
		selector, err := metav1.LabelSelectorAsSelector(from)
		if err != nil {
			return nil, &Problem{v1alpha1.ReasonInvalidFleet, fmt.Sprintf("%s: not a label selector: %v: correct it", field, err)}
		}
		return selector, nil
	}
	for i := range fleet.Spec.Overrides {
		selector, invalid := read(overrideField(fleet.Spec.Overrides[i].Name), &fleet.Spec.Overrides[i].ClusterSelector)
		if invalid != nil {
			return nil, invalid
		}
		all.overrides = append(all.overrides, selector)
	}
	for i := range fleet.Spec.Groups {
		var selector labels.Selector
		if from := fleet.Spec.Groups[i].ClusterSelector; from != nil {
			var invalid *Problem
			if selector, invalid = read(groupField(fleet.Spec.Groups[i]), from); invalid != nil {
				return nil, invalid
			}
		}
		all.groups = append(all.groups, selector)
	}
	return all, nil
}

func overrideField(name string) string {
	return fmt.Sprintf("spec.overrides[%s].clusterSelector", name)
}

func groupField(group v1alpha1.MachineFleetGroup) string {
	if group.ClusterSelector == nil {
		return fmt.Sprintf("spec.groups[%s]", group.Name)
	}
	return fmt.Sprintf("spec.groups[%s].clusterSelector", group.Name)
}

// unusedSelectors names the overrides and groups that no selected cluster matches.
func (s *selectors) unusedSelectors(fleet *v1alpha1.MachineFleet) []string {
	var fields []string
	for _, override := range fleet.Spec.Overrides {
		fields = append(fields, overrideField(override.Name))
	}
	for _, group := range fleet.Spec.Groups {
		fields = append(fields, groupField(group))
	}
	return slices.DeleteFunc(fields, func(field string) bool { return s.used[field] })
}

// classifyMember finds out the group and the replicas of a member.
func (s *selectors) classifyMember(of *Scope, m *Member) {
	fleet, has := of.Fleet, labels.Set(m.Cluster.Labels)
	for i, group := range s.groups {
		name := fleet.Spec.Groups[i].Name
		if group == nil && of.selection.Groups[m.Cluster.Name] == name || group != nil && group.Matches(has) {
			m.group = name
			s.used[groupField(fleet.Spec.Groups[i])] = true
			break
		}
	}
	m.template, m.replicas = s.own, fleet.Spec.Replicas
	var hasTemplate, hasReplicas bool
	for i, override := range s.overrides {
		if !override.Matches(has) {
			continue
		}
		s.used[overrideField(fleet.Spec.Overrides[i].Name)] = true
		if t := s.templates[i]; t != nil && !hasTemplate {
			m.template, hasTemplate = t, true
		}
		if n := fleet.Spec.Overrides[i].Replicas; n != nil && !hasReplicas {
			m.replicas, hasReplicas = n, true
		}
	}
	m.replicasFromLabel(fleet.Spec.ReplicasFromLabel)
}

// template is what the MachineDeployments of some clusters are made from.
type template struct {
	*v1alpha1.MachineDeploymentTemplate
	// field is where it comes from, for messages.
	field string
	// override is the name of the override that is merged into it; empty for spec.template as it is.
	override string
	// hash is that of the merged template; empty for spec.template as it is, also where an override changes nothing of it.
	hash string
}

func (t *template) kubeletVersion() string { return t.Spec.Template.Spec.Versions.Kubelet }

func ownTemplate(fleet *v1alpha1.MachineFleet) *template {
	return &template{MachineDeploymentTemplate: &fleet.Spec.Template, field: "spec.template"}
}

// readTemplates are the fleet's template and those of its overrides, as its revision is written.
func readTemplates(fleet *v1alpha1.MachineFleet, spelled Spelling) (*template, []*template, *Problem) {
	merged, invalid := mergedTemplates(fleet)
	if invalid != nil || spelled.isOwn() {
		return ownTemplate(fleet), merged, invalid
	}
	respelled, err := spelled.respell(fleet)
	if err != nil {
		return nil, nil, &Problem{v1alpha1.ReasonInvalidFleet, fmt.Sprintf("spec.template: comparing it with revision %s: %v", spelled.Revision, err)}
	}
	merged, invalid = mergedTemplates(respelled)
	return ownTemplate(respelled), merged, invalid
}
