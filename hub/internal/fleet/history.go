package fleet

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
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// mostTemplates is how many templates of a fleet are kept to go back to, besides those that some cluster still has.
const mostTemplates = 10

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

// Templates reads the templates of a fleet that are kept, the oldest first.
func Templates(ctx context.Context, reader client.Reader, namespace string, fleet *v1alpha1.MachineFleet) ([]Template, error) {
	list := &appsv1.ControllerRevisionList{}
	err := reader.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.MachineFleetNameLabel: fleet.Name})
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

// keepTemplate stores the template of a fleet before a cluster gets it, so that a user can go back to it, with the clusters that the
// fleet has now, and removes those templates that are too many. It returns whether it had anything to do.
func (c *Controller) keepTemplate(ctx context.Context, s *scope) (bool, error) {
	taken := s.takeSnapshot()
	if known, _ := c.remembered.valueOf(s.fleet.UID); known.kept && (s.snapshot != nil && known.isOfRollout(s) || known.sameBasis(taken)) {
		return false, nil
	}
	all, err := Templates(ctx, c.Live, c.Namespace, s.fleet)
	if err != nil {
		return false, err
	}
	next := int64(1)
	if len(all) > 0 {
		next = all[len(all)-1].Number + 1
	}
	at := slices.IndexFunc(all, func(t Template) bool { return t.Revision == s.revision })
	switch {
	case at < 0:
		err = c.storeTemplate(ctx, s, next, taken)
	case s.snapshot == nil && all[at].Members == nil && at == len(all)-1: // With which clusters it was started is not known any more.
		err = c.beginAgain(ctx, all[at].Kept, all[at].Number, taken)
	case s.snapshot == nil: // It was gone back to, or is started again.
		err = c.beginAgain(ctx, all[at].Kept, next, taken)
	default:
		taken = memory{revision: s.revision, members: all[at].Members, promise: all[at].Promise}
	}
	if err != nil {
		return false, fmt.Errorf("keeping the template of machine fleet %s: %w", s.fleet.Name, err)
	}
	taken.kept = true
	c.remembered.setValue(s.fleet.UID, taken)
	return true, c.removeOldTemplates(ctx, s, all)
}

// beginAgain notes that a revision which is kept is started with other clusters or another spec, or with another number.
func (c *Controller) beginAgain(ctx context.Context, kept *appsv1.ControllerRevision, number int64, taken memory) error {
	changed := kept.DeepCopy()
	changed.Revision = number
	if err := setSnapshot(changed, taken); err != nil {
		return err
	}
	return c.Client.Patch(ctx, changed, reconciler.MergeFromWithLock(kept), fieldOwner)
}

func (c *Controller) storeTemplate(ctx context.Context, s *scope, number int64, taken memory) error {
	text, err := json.Marshal(s.content)
	if err != nil {
		return err
	}
	owner := metav1.NewControllerRef(s.fleet, v1alpha1.GroupVersion.WithKind("MachineFleet"))
	owner.BlockOwnerDeletion = nil // It would need a right to finalizers, and nothing waits for it.
	wanted := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: s.fleet.Name + "-" + s.revision,
			Labels:          map[string]string{v1alpha1.MachineFleetNameLabel: s.fleet.Name},
			Annotations:     map[string]string{v1alpha1.FleetRevisionAnnotation: s.revision},
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Data: runtime.RawExtension{Raw: text}, Revision: number,
	}
	if err := setSnapshot(wanted, taken); err != nil {
		return err
	}
	err = c.Client.Create(ctx, wanted, fieldOwner)
	if apierrors.IsAlreadyExists(err) {
		// That of a fleet of this name that was deleted goes away with it, by the garbage collector. The error is not wrapped:
		// the Runner takes it for a conflict, which is not an error.
		return fmt.Errorf("controller revision %s/%s-%s belongs to another object; trying again: %s", c.Namespace, s.fleet.Name, s.revision, err.Error())
	}
	return err
}

// removeOldTemplates removes the oldest templates beyond the limit, but none that a cluster has.
func (c *Controller) removeOldTemplates(ctx context.Context, s *scope, templates []Template) error {
	inUse := map[string]bool{s.revision: true}
	for _, m := range slices.Concat(s.members, s.left) {
		if m.record != nil {
			inUse[m.record.Revision], inUse[m.record.templateRevision()] = true, true
		}
	}
	var all []error
	unused := slices.DeleteFunc(slices.Clone(templates), func(t Template) bool { return inUse[t.Revision] })
	for _, t := range unused[:max(len(unused)-mostTemplates, 0)] {
		uid := t.Kept.UID
		if err := c.Client.Delete(ctx, t.Kept, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			all = append(all, fmt.Errorf("removing controller revision %s: %w", t.Kept.Name, err))
		}
	}
	return errors.Join(all...)
}
