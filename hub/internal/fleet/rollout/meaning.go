package rollout

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	labelselection "k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	deploymentplan "github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
)

// meaning is what the templates of a fleet come to, in one spelling: if two are equal, no cluster gets anything else by one than by
// the other. The names of overrides and their order are not in it. The order may decide which of them holds for a cluster; the
// record of each cluster says that.
type meaning struct {
	own       string
	overrides []overrideMeaning
}

// overrideMeaning is which clusters an override chooses, and the template that it merges into the fleet's.
type overrideMeaning struct{ selector, template string }

// meaningOf reads what templates come to. An error says that they cannot be used.
func meaningOf(k *kept) (meaning, error) {
	var all meaning
	var err error
	if all.own, err = normalizeTemplate(&k.MachineDeploymentTemplate); err != nil {
		return meaning{}, err
	}
	effective := false
	for i := range k.Overrides {
		one, err := overrideMeaningOf(&k.MachineDeploymentTemplate, &k.Overrides[i])
		if err != nil {
			return meaning{}, err
		}
		effective = effective || one.template != all.own
		all.overrides = append(all.overrides, one)
	}
	if !effective {
		all.overrides = nil // One that changes nothing keeps its clusters from others, and there are none.
	}
	return all, nil
}

// isIdle reports whether an override changes nothing of a template.
func isIdle(base *v1alpha1.MachineDeploymentTemplate, override overrideMeaning) bool {
	own, err := normalizeTemplate(base)
	return err == nil && override.template == own
}

// withoutIdle returns what is kept of a fleet without the overrides that change nothing and keep no cluster from a later one: those
// after the last one that changes something.
func withoutIdle(fleet *v1alpha1.MachineFleet) *kept {
	last := -1
	for i := range fleet.Spec.Overrides {
		if fleet.Spec.Overrides[i].Template == nil {
			continue
		}
		if one, err := overrideMeaningOf(&fleet.Spec.Template, &fleet.Spec.Overrides[i]); err != nil || !isIdle(&fleet.Spec.Template, one) {
			last = i
		}
	}
	trimmed := fleet.DeepCopy()
	trimmed.Spec.Overrides = trimmed.Spec.Overrides[:last+1]
	return keptOf(trimmed)
}

func overrideMeaningOf(base *v1alpha1.MachineDeploymentTemplate, override *v1alpha1.MachineFleetOverride) (overrideMeaning, error) {
	if override.Template == nil {
		return overrideMeaning{}, errors.New("an override without a template")
	}
	merged, err := mergeTemplate(base, override.Template)
	if err != nil {
		return overrideMeaning{}, err
	}
	text, err := normalizeTemplate(merged)
	if err != nil {
		return overrideMeaning{}, err
	}
	selector, err := normalizeSelector(&override.ClusterSelector)
	return overrideMeaning{selector, text}, err
}

// equals reports whether two meanings are the same, in whatever order their overrides are.
func (m meaning) equals(other meaning) bool {
	sorted := func(all []overrideMeaning) []overrideMeaning {
		return slices.SortedFunc(slices.Values(all), func(a, b overrideMeaning) int {
			return cmp.Or(strings.Compare(a.selector, b.selector), strings.Compare(a.template, b.template))
		})
	}
	return m.own == other.own && slices.Equal(sorted(m.overrides), sorted(other.overrides))
}

// normalizeTemplate writes a template with all defaults that hold for every cluster, its sets sorted, its quantities, durations and
// versions in one form, and without what is empty.
func normalizeTemplate(template *v1alpha1.MachineDeploymentTemplate) (string, error) {
	one := template.DeepCopy()
	one.Spec.Template = deploymentplan.NormalizeTemplate(one.Spec.Template)
	body := &one.Spec.Template.Spec
	slices.Sort(body.Roles)
	slices.Sort(body.UnhealthyNodeConditions)
	normalizeTaints(body.Taints)
	if limits := body.Timeouts; limits != nil && *limits == (v1alpha1.MachineTimeouts{}) {
		body.Timeouts = nil
	}
	normalizeSpec(&one.Spec)
	text, err := json.Marshal(one)
	if err != nil {
		return "", fmt.Errorf("writing a template as text: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value map[string]any
	if err := decoder.Decode(&value); err != nil {
		return "", fmt.Errorf("reading a template: %w", err)
	}
	for _, path := range [][]string{{"metadata"}, {"spec", "template", "metadata"}, {"spec", "template", "spec", "metadata"}} {
		dropEmpty(value, path)
	}
	text, err = json.Marshal(value) // Its keys are sorted, those of the provider's configuration too.
	return string(text), err
}

// dropEmpty removes the object at a path if it is empty.
func dropEmpty(from map[string]any, path []string) {
	below, is := from[path[0]].(map[string]any)
	if !is {
		return
	}
	if len(path) > 1 {
		dropEmpty(below, path[1:])
	} else if len(below) == 0 {
		delete(from, path[0])
	}
}

// normalizeTaints sorts taints, unless some differ in their value only, and leaves out when they were added: a Node has its own time.
func normalizeTaints(taints []corev1.Taint) {
	compare := func(a, b corev1.Taint) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(string(a.Effect), string(b.Effect)))
	}
	for i := range taints {
		taints[i].TimeAdded = nil
	}
	sorted := slices.SortedFunc(slices.Values(taints), compare)
	for i := 1; i < len(sorted); i++ {
		if compare(sorted[i-1], sorted[i]) == 0 {
			return
		}
	}
	copy(taints, sorted)
}

// normalizeSpec fills in the defaults of a MachineDeployment.
func normalizeSpec(spec *v1alpha1.MachineDeploymentTemplateSpec) {
	strategy := &spec.Strategy
	switch strategy.Type = cmp.Or(strategy.Type, v1alpha1.RollingUpdate); strategy.Type {
	case v1alpha1.RollingUpdate:
		bounds := &v1alpha1.RollingUpdateBounds{}
		if strategy.RollingUpdate != nil {
			bounds = strategy.RollingUpdate
		}
		strategy.RollingUpdate = bounds
		bounds.MaxSurge = normalizeAmount(bounds.MaxSurge, intstr.FromInt32(1))
		bounds.MaxUnavailable = normalizeAmount(bounds.MaxUnavailable, intstr.FromInt32(0))
	case v1alpha1.InPlace:
		bounds := &v1alpha1.InPlaceUpdate{}
		if strategy.InPlace != nil {
			bounds = strategy.InPlace
		}
		strategy.InPlace = bounds
		bounds.MaxUnavailable = normalizeAmount(bounds.MaxUnavailable, intstr.FromInt32(1))
		bounds.Trigger = cmp.Or(bounds.Trigger, v1alpha1.InPlaceAuto)
	case v1alpha1.OnDelete, v1alpha1.Recreate:
	}
	spec.ProgressDeadlineSeconds = orDefault(spec.ProgressDeadlineSeconds, 1800)
	spec.RevisionHistoryLimit = orDefault(spec.RevisionHistoryLimit, 10)
	spec.DeletePolicy = cmp.Or(spec.DeletePolicy, v1alpha1.DeleteOldest)
	spec.Remediation.MaxUnhealthy = normalizeAmount(spec.Remediation.MaxUnhealthy, intstr.FromString("40%"))
	spec.Remediation.MaxInFlight = normalizeAmount(spec.Remediation.MaxInFlight, intstr.FromInt32(1))
}

func orDefault(value *int32, usual int32) *int32 {
	if value == nil {
		return &usual
	}
	return value
}

// normalizeAmount is a number or a percentage without leading zeros, or its default.
func normalizeAmount(amount *intstr.IntOrString, usual intstr.IntOrString) *intstr.IntOrString {
	if amount == nil {
		return &usual
	}
	if digits := strings.TrimLeft(amount.StrVal, "0"); amount.Type == intstr.String && digits != amount.StrVal {
		if digits == "%" {
			return new(intstr.FromInt32(0))
		}
		return new(intstr.FromString(digits))
	}
	return amount
}

// normalizeSelector writes a label selector with its requirements and their values sorted. One with a single value is written as a
// comparison.
func normalizeSelector(from *metav1.LabelSelector) (string, error) {
	read, err := metav1.LabelSelectorAsSelector(from)
	if err != nil {
		return "", err
	}
	all, selectable := read.Requirements()
	if !selectable {
		return "none", nil
	}
	texts := []string{}
	for _, one := range all {
		if values := one.Values(); values.Len() == 1 {
			operator := map[labelselection.Operator]labelselection.Operator{labelselection.In: labelselection.Equals, labelselection.NotIn: labelselection.NotEquals}[one.Operator()]
			if operator != "" {
				simple, err := labels.NewRequirement(one.Key(), operator, values.UnsortedList())
				if err != nil {
					return "", err
				}
				one = *simple
			}
		}
		texts = append(texts, one.String())
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ","), nil
}
