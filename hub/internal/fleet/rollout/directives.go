package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// mergePatch applies a strategic merge patch. The library panics over some patches that make no sense; that is an error of the
// patch, and ends nothing else.
func mergePatch(original, patch map[string]any, schema strategicpatch.LookupPatchMeta) (result map[string]any, err error) {
	defer func() {
		if failed := recover(); failed != nil {
			err = fmt.Errorf("the patch is invalid: %v", failed)
		}
	}()
	return strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(original, patch, schema)
}

// checkDirectives refuses directives of a strategic merge patch that there are not, or whose value does not fit.
func checkDirectives(path string, value any) error {
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			if err := checkDirectives(fmt.Sprintf("%s[%d]", path, i), item); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if strings.HasPrefix(key, "$") {
				if err := checkDirective(path+"."+key, key, v[key]); err != nil {
					return err
				}
				continue
			}
			if err := checkDirectives(path+"."+key, v[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkDirective(path, key string, value any) error {
	switch key {
	case "$patch":
		if word, is := value.(string); is && slices.Contains([]string{"merge", "replace", "delete"}, word) {
			return nil
		}
		return fmt.Errorf("%s: want merge, replace or delete, got %v", path, value)
	case "$retainKeys":
		items, is := value.([]any)
		if is && !slices.ContainsFunc(items, func(item any) bool { _, isText := item.(string); return !isText }) {
			return nil
		}
		return fmt.Errorf("%s: want a list of keys, got %v", path, value)
	}
	return fmt.Errorf("%s: unknown directive; the directives are $patch and $retainKeys", path)
}

// usersAnnotations are annotations of Hollowfleet that users set on MachineDeployments. The others are the hub's.
var usersAnnotations = []string{v1alpha1.AutoscalerMinSizeAnnotation, v1alpha1.AutoscalerMaxSizeAnnotation, v1alpha1.AllowOvershootAnnotation}

// reservedMetadata finds an annotation or a label of a template that is not for a template to set.
func reservedMetadata(field string, metadata v1alpha1.TemplateMetadata) *Problem {
	for _, key := range slices.Sorted(maps.Keys(metadata.Annotations)) {
		if key == corev1.LastAppliedConfigAnnotation || isOurs(key) && !slices.Contains(usersAnnotations, key) {
			return &Problem{v1alpha1.ReasonInvalidFleet, fmt.Sprintf("%s.metadata.annotations[%s]: programs write it, not templates: remove it", field, key)}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(metadata.Labels)) {
		if isOurs(key) {
			return &Problem{v1alpha1.ReasonInvalidFleet, fmt.Sprintf("%s.metadata.labels[%s]: the hub writes it: remove it", field, key)}
		}
	}
	return nil
}

// isOurs reports whether a key of a label or an annotation is in Hollowfleet's domain.
func isOurs(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	return found && (domain == v1alpha1.GroupVersion.Group || strings.HasSuffix(domain, "."+v1alpha1.GroupVersion.Group))
}
