package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// What says of one Machine alone what has become of it, or is to become of it. From a template it would come back each
// time that it is taken off.
var (
	reservedLabels      = []string{v1alpha1.UpdateInPlaceLabel}
	reservedAnnotations = []string{
		v1alpha1.TemplateKeysAnnotation, v1alpha1.DeleteMachineAnnotation, v1alpha1.RemediationAnnotation,
		v1alpha1.ReplacesAnnotation, v1alpha1.InPlaceUpdateAnnotation,
	}
)

// Usable returns metadata without the labels and annotations that no Machine can have from a template, and says of each
// of those what is wrong. Admission refuses them; an object that is older than admission may have them all the same, and
// its Machines must be healed and updated without.
func Usable(metadata v1alpha1.TemplateMetadata) (v1alpha1.TemplateMetadata, []string) {
	usable := *metadata.DeepCopy()
	var problems []string
	leaveOut := func(from map[string]string, field, key string, wrong []string) {
		if len(wrong) > 0 {
			delete(from, key)
			problems = append(problems, fmt.Sprintf("%s[%q] is left out: %s", field, key, strings.Join(wrong, ", ")))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(metadata.Labels)) {
		leaveOut(usable.Labels, "metadata.labels", key, wrongLabel(key, metadata.Labels[key]))
	}
	for _, key := range slices.Sorted(maps.Keys(metadata.Annotations)) {
		// The API server compares the keys of annotations without regard to case.
		wrong := validation.IsQualifiedName(strings.ToLower(key))
		if slices.Contains(reservedAnnotations, key) {
			wrong = []string{"it is reserved for single machines"}
		}
		leaveOut(usable.Annotations, "metadata.annotations", key, wrong)
	}
	return usable, problems
}

func wrongLabel(key, value string) []string {
	if slices.Contains(reservedLabels, key) {
		return []string{"it is reserved for single machines"}
	}
	return append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
}

// SelectorProblem says why no Machine of t, which is set's, could match set's selector; empty if it would.
func (t Template) SelectorProblem(set *v1alpha1.MachineSet) string {
	selector := set.Spec.Selector.MatchLabels
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		if wrong := wrongLabel(key, selector[key]); len(wrong) > 0 {
			return fmt.Sprintf("spec.selector.matchLabels[%q]: %s", key, strings.Join(wrong, ", "))
		}
	}
	machine := &v1alpha1.Machine{}
	t.Give(machine)
	if !labels.SelectorFromSet(selector).Matches(labels.Set(machine.Labels)) {
		return fmt.Sprintf("spec.selector.matchLabels %s asks for labels that spec.template does not give to machines, or that "+
			"the hub gives another value: they get %s", labels.Set(selector), labels.Set(machine.Labels))
	}
	return ""
}
