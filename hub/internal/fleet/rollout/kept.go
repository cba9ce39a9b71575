package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// A revision is named by the hash of its text, so that fleets keep theirs when the hub is upgraded. A text that means the same as one
// that is kept is that revision all the same: the kept text stands in for it, so that nothing is written to any cluster.

// Spelling is how the revision of a fleet is written.
type Spelling struct {
	// text is the hash of the spec's templates as they are written now.
	text string
	// Revision is that of content, which means the same.
	Revision string
	content  *kept
}

// isOwn reports whether the spec is written as its revision is.
func (p *Spelling) isOwn() bool { return p.text == p.Revision }

// ReadSpelling finds the revision of a fleet's templates. What is kept is read once for each text and process, and not at all while
// the status has the hash of the text.
func (r *Observer) ReadSpelling(ctx context.Context, fleet *v1alpha1.MachineFleet) (Spelling, error) {
	last, _ := r.spellings.ValueOf(fleet.UID)
	found, err := findSpelling(ctx, r.Live, fleet, last)
	if err == nil {
		r.spellings.SetValue(fleet.UID, found)
	}
	return found, err
}

// findSpelling finds the revision of a fleet's templates. last is the one that was found before.
func findSpelling(ctx context.Context, reader client.Reader, fleet *v1alpha1.MachineFleet, last Spelling) (Spelling, error) {
	written := keptOf(fleet)
	text, err := hashOf(written)
	if err != nil || last.text == text {
		return last, err
	}
	found := Spelling{text: text, Revision: text, content: written}
	if text == fleet.Status.Revision {
		return found, nil
	}
	started, err := Templates(ctx, reader, fleet)
	if err != nil {
		return found, err
	}
	pending, err := PendingTemplate(ctx, reader, fleet)
	if err == nil {
		found.adopt(append(pending, started...), last, withoutIdle(fleet))
	}
	return found, err
}

// spellingForUser finds it for a user, who need not have the right to see what is kept: then it is as the hub has found it.
func spellingForUser(ctx context.Context, reader client.Reader, fleet *v1alpha1.MachineFleet) (Spelling, error) {
	found, err := findSpelling(ctx, reader, fleet, Spelling{})
	if apierrors.IsForbidden(err) {
		found.Revision, err = observedRevision(fleet, found.text), nil
	}
	return found, err
}

// adopt takes the newest template over that means the same, or else the last one that this process has seen: it may not have been
// started anywhere yet.
func (p *Spelling) adopt(all []Template, last Spelling, trimmed *kept) {
	wanted, err := meaningOf(p.content)
	if err != nil {
		return // It cannot be used, and nothing is started by it.
	}
	short, err := meaningOf(trimmed)
	if err != nil {
		return
	}
	means := func(content *kept) bool { return content != nil && (content.means(wanted) || content.means(short)) }
	for _, t := range slices.Backward(all) {
		if content := t.content(); means(content) {
			p.Revision, p.content = t.Revision, content
			return
		}
	}
	if means(last.content) {
		p.Revision, p.content = last.Revision, last.content
	}
}

func (k *kept) means(wanted meaning) bool {
	found, err := meaningOf(k)
	return err == nil && found.equals(wanted)
}

// content is what is kept; nil if it is not what the revision is named by, as after an edit of its annotation.
func (t Template) content() *kept {
	if t.Template == nil {
		return nil
	}
	content := &kept{MachineDeploymentTemplate: *t.Template, Overrides: t.Overrides}
	if hash, err := hashOf(content); err != nil || hash != t.Revision {
		return nil
	}
	return content
}

// respell returns the fleet with the templates of its revision in place of its own, which mean the same.
func (p *Spelling) respell(fleet *v1alpha1.MachineFleet) (*v1alpha1.MachineFleet, error) {
	if p.isOwn() || p.content == nil {
		return fleet, nil
	}
	result := fleet.DeepCopy()
	result.Spec.Template = *p.content.MachineDeploymentTemplate.DeepCopy()
	for i := range fleet.Spec.Overrides {
		own := &fleet.Spec.Overrides[i]
		if own.Template == nil {
			continue
		}
		wanted, err := overrideMeaningOf(&fleet.Spec.Template, own)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(p.content.Overrides, func(one v1alpha1.MachineFleetOverride) bool {
			found, err := overrideMeaningOf(&p.content.MachineDeploymentTemplate, &one)
			return err == nil && found == wanted
		})
		if at >= 0 {
			result.Spec.Overrides[i].Template = p.content.Overrides[at].Template.DeepCopy()
		} else if result.Spec.Overrides[i].Template = nil; !isIdle(&fleet.Spec.Template, wanted) {
			return nil, errors.New("an override does not mean what it did")
		}
	}
	return result, nil
}

// observedRevision is the revision that the hub has found for the spec, if it has looked at it since it was last changed.
func observedRevision(fleet *v1alpha1.MachineFleet, text string) string {
	if isObserved(fleet) {
		return fleet.Status.Revision
	}
	return text
}

func isObserved(fleet *v1alpha1.MachineFleet) bool {
	return fleet.Status.Revision != "" && fleet.Generation > 0 && fleet.Status.ObservedGeneration >= fleet.Generation
}

// WithSpec returns a copy of a fleet whose spec is about to be changed: what the hub has found for the stored one is not about it.
func WithSpec(fleet *v1alpha1.MachineFleet) *v1alpha1.MachineFleet {
	result := fleet.DeepCopy()
	result.Generation++
	return result
}

// HaveSameText reports whether the templates of two fleets are written in the same way.
func HaveSameText(a, b *v1alpha1.MachineFleet) bool {
	first, errFirst := TextRevision(a)
	second, errSecond := TextRevision(b)
	return errFirst == nil && errSecond == nil && first == second
}

// Revision is that of a fleet as it is stored: the one that the hub has found for it, or the hash of its templates if the hub has not
// looked at it yet.
func Revision(fleet *v1alpha1.MachineFleet) (string, error) {
	text, err := TextRevision(fleet)
	if err != nil {
		return "", err
	}
	return observedRevision(fleet, text), nil
}

// FindRevision is the revision that the hub has found for a fleet, or will find for it.
func FindRevision(ctx context.Context, reader client.Reader, fleet *v1alpha1.MachineFleet) (string, error) {
	if isObserved(fleet) {
		return fleet.Status.Revision, nil
	}
	found, err := spellingForUser(ctx, reader, fleet)
	return found.Revision, err
}
