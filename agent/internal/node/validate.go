package node

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// reserved are the labels and annotations of a Node that hollow-node and agent set themselves.
var reserved = []string{
	v1alpha1.HollowNodeLabel, v1alpha1.KubeletVersionSourceLabel, v1alpha1.NodeMachineAnnotation,
	v1alpha1.NodeClusterNamespaceAnnotation, v1alpha1.NodeAppliedTaintsAnnotation, v1alpha1.NodeCordonedAnnotation,
}

// Validate returns *driver.InvalidConfigurationError for the first label, annotation, taint or role of
// machine that no Node could have. The hub's API server cannot see these.
func Validate(machine *v1alpha1.Machine) error {
	if err := validateMetadata(machine.Spec.NodeMetadata); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, taint := range machine.Spec.Taints {
		if err := validateTaint(taint); err != nil {
			return err
		}
		id := taint.Key + ":" + string(taint.Effect)
		if seen[id] {
			return driver.Invalid("spec.taints", "%s is listed twice: a Node has one taint of each key and effect", id)
		}
		seen[id] = true
	}
	return nil
}

func validateMetadata(metadata v1alpha1.NodeMetadata) error {
	for _, key := range slices.Sorted(maps.Keys(metadata.Labels)) {
		field := "spec.metadata.labels." + key
		if problem := keyProblem(key); problem != "" {
			return driver.Invalid(field, "%s", problem)
		}
		if problems := validation.IsValidLabelValue(metadata.Labels[key]); len(problems) > 0 {
			return driver.Invalid(field, "no label value: %s", problems[0])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(metadata.Annotations)) {
		if problem := keyProblem(key); problem != "" {
			return driver.Invalid("spec.metadata.annotations."+key, "%s", problem)
		}
	}
	return nil
}

func keyProblem(key string) string {
	if slices.Contains(reserved, key) {
		return "reserved: the agent sets it itself; remove it"
	}
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return "no valid key: " + problems[0]
	}
	return ""
}

func validateTaint(taint corev1.Taint) error {
	const field = "spec.taints"
	if problems := validation.IsQualifiedName(taint.Key); len(problems) > 0 {
		return driver.Invalid(field, "key %q: %s", taint.Key, problems[0])
	}
	if problems := validation.IsValidLabelValue(taint.Value); len(problems) > 0 {
		return driver.Invalid(field, "value %q of key %q: %s", taint.Value, taint.Key, problems[0])
	}
	switch taint.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return nil
	}
	return driver.Invalid(field, "effect %q of key %q: want NoSchedule, PreferNoSchedule or NoExecute", taint.Effect, taint.Key)
}
