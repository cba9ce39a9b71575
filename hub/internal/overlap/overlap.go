// Package overlap finds out which of several objects that select the same things has to wait for the others.
package overlap

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// Claim is what one object selects, and what another could select of it.
type Claim struct {
	// Kind and Name are those that messages name it by.
	Kind, Name string
	UID        types.UID
	Created    metav1.Time
	// First: it waits for no object that is not First, even for an older one.
	First bool
	// Selector chooses what the object takes over.
	Selector labels.Selector
	// Labels are those of what the object makes.
	Labels labels.Set
}

// Overlaps reports whether one of the two selects what the other makes.
func (c Claim) Overlaps(other Claim) bool {
	return c.Selector.Matches(other.Labels) || other.Selector.Matches(c.Labels)
}

// WaitsFor reports whether c may change nothing as long as other is there. Of two that overlap the younger one waits; of two of one age
// it is the one whose name comes later.
func (c Claim) WaitsFor(other Claim) bool {
	return c.UID != other.UID && c.Overlaps(other) && other.comesBefore(c)
}

func (c Claim) comesBefore(other Claim) bool {
	switch {
	case c.First != other.First:
		return c.First
	case c.Created.Equal(&other.Created):
		return cmp.Or(cmp.Compare(c.Name, other.Name), cmp.Compare(c.UID, other.UID)) < 0
	}
	return c.Created.Before(&other.Created)
}

// Explain says for which of others claim waits, and what a user can do; empty if it waits for none. What they select is called what.
func Explain(claim Claim, others []Claim, what string) string {
	var names []string
	because, remedy := "the younger", "delete it, and recreate it with a selector that has a unique label"
	for _, other := range others {
		if !claim.WaitsFor(other) {
			continue
		}
		names = append(names, other.Kind+" "+other.Name)
		if other.First != claim.First {
			because = "which no " + other.Kind + " controls"
			remedy = fmt.Sprintf("to have it adopted with its %s, give it the label %s=%s, and labels that spec.selector of the %s matches; or delete it",
				what, v1alpha1.MachineDeploymentNameLabel, other.Name, other.Kind)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("spec.selector.matchLabels: this selector and that of %s match %s of each other, so this object, %s, is not reconciled: %s",
		reconciler.ListFew(slices.Compact(names)), what, because, remedy)
}
