package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Template is a template that a fleet has applied to some cluster.
type Template struct {
	// Number counts the fleet's templates in the order in which they were applied last, from 1.
	Number int64
	// Revision is the template's hash.
	Revision string
	// Template is nil if what was kept cannot be read.
	Template *v1alpha1.MachineDeploymentTemplate
	// Overrides are those that had a template, by name, without their replicas.
	Overrides []v1alpha1.MachineFleetOverride
	// Members are the groups of the clusters that the fleet had when the revision was started last, by name; nil if that is not
	// known.
	Members map[string]string
	// Promise is what the spec said then; nil if that is not known.
	Promise *Promise
	// Kept is the object that keeps it.
	Kept *appsv1.ControllerRevision
}

// kept is what is kept of a fleet's templates: spec.template, and beside its fields the overrides that have a template.
type kept struct {
	v1alpha1.MachineDeploymentTemplate
	Overrides []v1alpha1.MachineFleetOverride `json:"overrides,omitempty"`
}

// keptOf is what is to be kept of a fleet.
func keptOf(fleet *v1alpha1.MachineFleet) *kept {
	k := &kept{MachineDeploymentTemplate: fleet.Spec.Template}
	for _, override := range fleet.Spec.Overrides {
		if override.Template != nil {
			override.Replicas = nil
			k.Overrides = append(k.Overrides, override)
		}
	}
	slices.SortFunc(k.Overrides, func(a, b v1alpha1.MachineFleetOverride) int { return cmp.Compare(a.Name, b.Name) })
	return k
}

// Restore gives a fleet the templates that were kept: spec.template and those of the overrides. Replicas stay as they are.
func (t Template) Restore(fleet *v1alpha1.MachineFleet) {
	fleet.Spec.Template = *t.Template.DeepCopy()
	missing := slices.Clone(t.Overrides)
	var overrides []v1alpha1.MachineFleetOverride
	for _, override := range fleet.Spec.Overrides {
		override.Template = nil
		if i := slices.IndexFunc(missing, func(old v1alpha1.MachineFleetOverride) bool { return old.Name == override.Name }); i >= 0 {
			old := missing[i].DeepCopy()
			override.ClusterSelector, override.Template = old.ClusterSelector, old.Template
			missing = slices.Delete(missing, i, i+1)
		}
		if override.Template != nil || override.Replicas != nil {
			overrides = append(overrides, override)
		}
	}
	fleet.Spec.Overrides = append(overrides, missing...)
}

// PendingTemplate reads the templates of a fleet that may have approvals already and were not started in any cluster, if they are kept.
func PendingTemplate(ctx context.Context, reader client.Reader, fleet *v1alpha1.MachineFleet) ([]Template, error) {
	return listTemplates(ctx, reader, fleet, v1alpha1.FleetPendingLabel)
}

// Templates reads the templates of a fleet that are kept, the oldest first.
func Templates(ctx context.Context, reader client.Reader, fleet *v1alpha1.MachineFleet) ([]Template, error) {
	return listTemplates(ctx, reader, fleet, v1alpha1.MachineFleetNameLabel)
}

// listTemplates reads those that a label marks as the fleet's.
func listTemplates(ctx context.Context, reader client.Reader, fleet *v1alpha1.MachineFleet, label string) ([]Template, error) {
	list := &appsv1.ControllerRevisionList{}
	err := reader.List(ctx, list, client.InNamespace(v1alpha1.HubNamespace), client.MatchingLabels{label: fleet.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the controller revisions of machine fleet %s: %w", fleet.Name, err)
	}
	var found []Template
	for i := range list.Items {
		object := &list.Items[i]
		if !metav1.IsControlledBy(object, fleet) {
			continue
		}
		t := Template{Number: object.Revision, Revision: object.Annotations[v1alpha1.FleetRevisionAnnotation], Kept: object}
		content := &kept{}
		if json.Unmarshal(object.Data.Raw, content) == nil {
			t.Template, t.Overrides = &content.MachineDeploymentTemplate, content.Overrides
		}
		t.Members, t.Promise = readSnapshot(object)
		found = append(found, t)
	}
	slices.SortFunc(found, func(a, b Template) int { return int(a.Number - b.Number) })
	return found, nil
}
