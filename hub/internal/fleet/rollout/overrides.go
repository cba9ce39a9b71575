package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	strictjson "sigs.k8s.io/json"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// MostOverrideBytes is how large the templates of a fleet's overrides may be together: they are kept with each revision.
const MostOverrideBytes = 256 << 10

// mergedTemplates are the templates of the overrides, merged over the fleet's; nil for an override that has none.
func mergedTemplates(fleet *v1alpha1.MachineFleet) ([]*template, *Problem) {
	all, size := make([]*template, len(fleet.Spec.Overrides)), 0
	unchanged, err := UnchangedHash(&fleet.Spec.Template)
	if err != nil {
		return nil, &Problem{v1alpha1.ReasonInvalidFleet, "spec.template" + err.Error()}
	}
	for i := range fleet.Spec.Overrides {
		override := &fleet.Spec.Overrides[i]
		if override.Template == nil {
			continue
		}
		if size += len(override.Template.Raw); size > MostOverrideBytes {
			return nil, &Problem{v1alpha1.ReasonInvalidFleet, fmt.Sprintf(
				"spec.overrides: their templates have more than %d bytes together: shorten them", MostOverrideBytes)}
		}
		t := &template{field: fmt.Sprintf("spec.overrides[%s].template", override.Name), override: override.Name}
		merged, err := mergeTemplate(&fleet.Spec.Template, override.Template)
		if err != nil {
			return nil, &Problem{v1alpha1.ReasonInvalidFleet, t.field + err.Error() + ": correct or remove it"}
		}
		if !equality.Semantic.DeepEqual(merged.Spec.Selector, fleet.Spec.Template.Spec.Selector) {
			return nil, &Problem{v1alpha1.ReasonInvalidFleet, t.field + ".spec.selector: the selector cannot be overridden: remove it"}
		}
		if t.hash, err = hashOf(merged); err != nil {
			return nil, &Problem{v1alpha1.ReasonInvalidFleet, fmt.Sprintf("%s: %v", t.field, err)}
		}
		if t.MachineDeploymentTemplate = merged; t.hash == unchanged {
			t.MachineDeploymentTemplate, t.hash = &fleet.Spec.Template, "" // It only keeps the clusters from later overrides.
		}
		if invalid := reservedMetadata(t.field, merged.Metadata); invalid != nil {
			return nil, invalid
		}
		all[i] = t
	}
	return all, reservedMetadata("spec.template", fleet.Spec.Template.Metadata)
}

// UnchangedHash is the hash of a template into which an override is merged that changes nothing.
func UnchangedHash(base *v1alpha1.MachineDeploymentTemplate) (string, error) {
	merged, err := mergeTemplate(base, &runtime.RawExtension{Raw: []byte("{}")})
	if err != nil {
		return "", err
	}
	return hashOf(merged)
}

// mergeTemplate applies the template of an override to that of the fleet by a strategic merge patch. None of the types has a
// list with a merge key, so lists are replaced. An error starts with the field in the override's template that is wrong.
func mergeTemplate(base *v1alpha1.MachineDeploymentTemplate, override *runtime.RawExtension) (*v1alpha1.MachineDeploymentTemplate, error) {
	text, err := json.Marshal(base)
	if err != nil {
		return nil, fmt.Errorf(": writing spec.template as text: %w", err)
	}
	var original, patch map[string]any
	if err := utiljson.Unmarshal(text, &original); err != nil {
		return nil, fmt.Errorf(": reading spec.template: %w", err)
	}
	if err := utiljson.Unmarshal(override.Raw, &patch); err != nil {
		return nil, errors.New(": no object")
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(v1alpha1.MachineDeploymentTemplate{})
	if err != nil {
		return nil, fmt.Errorf(": reading the type of spec.template: %w", err)
	}
	if err := checkDirectives("", patch); err != nil {
		return nil, err
	}
	result, err := mergePatch(original, patch, patchSchema{known: schema})
	if err != nil {
		return nil, fmt.Errorf(": it cannot be merged into spec.template: %w", err)
	}
	if text, err = json.Marshal(result); err != nil {
		return nil, fmt.Errorf(": writing the merged template as text: %w", err)
	}
	merged := &v1alpha1.MachineDeploymentTemplate{}
	unknown, err := strictjson.UnmarshalStrict(text, merged, strictjson.DisallowUnknownFields)
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped):
		return nil, fmt.Errorf(".%s: a %s does not fit there", mistyped.Field, mistyped.Value)
	case err != nil:
		return nil, fmt.Errorf(": %w", err)
	case len(unknown) > 0:
		return nil, unknownField(unknown[0])
	}
	return merged, nil
}

// unknownField says which field there is not.
func unknownField(err error) error {
	if _, quoted, found := strings.Cut(err.Error(), `unknown field "`); found {
		return fmt.Errorf(".%s: unknown field", strings.TrimSuffix(quoted, `"`))
	}
	return fmt.Errorf(": %w", err)
}

// patchSchema is how a strategic merge patch merges the fields of a type. Where the type says nothing, as in the providers' own
// configurations, maps are merged and lists are replaced.
type patchSchema struct {
	known strategicpatch.LookupPatchMeta
}

var freeForm = reflect.TypeFor[runtime.RawExtension]()

// LookupPatchMetadataForStruct implements strategicpatch.LookupPatchMeta.
func (s patchSchema) LookupPatchMetadataForStruct(key string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	if s.known == nil {
		return s, strategicpatch.PatchMeta{}, nil
	}
	return narrowSchema(s.known.LookupPatchMetadataForStruct(key))
}

// LookupPatchMetadataForSlice implements strategicpatch.LookupPatchMeta.
func (s patchSchema) LookupPatchMetadataForSlice(key string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	if s.known == nil {
		return s, strategicpatch.PatchMeta{}, nil
	}
	return narrowSchema(s.known.LookupPatchMetadataForSlice(key))
}

// narrowSchema is the schema of one field. One that does not exist, or that does not fit, is found after the merge.
func narrowSchema(known strategicpatch.LookupPatchMeta, meta strategicpatch.PatchMeta, err error) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	if err != nil {
		return patchSchema{}, strategicpatch.PatchMeta{}, nil //nolint:nilerr // It is told with its field by the decoder.
	}
	if s, is := known.(strategicpatch.PatchMetaFromStruct); is {
		t := s.T
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t == freeForm {
			known = nil
		}
	}
	return patchSchema{known: known}, meta, nil
}

// Name implements strategicpatch.LookupPatchMeta.
func (s patchSchema) Name() string { return "template" }

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

// validations remembers, by the hashes of merged templates, what the API server said of them. The zero value is ready for use.
type validations struct {
	mu  sync.Mutex
	all map[types.UID]map[string]error
}

func (v *validations) validationOf(fleet types.UID, hash string) (known bool, said error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	said, known = v.all[fleet][hash]
	return known, said
}

func (v *validations) setValidation(fleet types.UID, hash string, said error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all == nil {
		v.all = map[types.UID]map[string]error{}
	}
	if known := v.all[fleet]; known == nil || len(known) > 2*mostOverrides {
		v.all[fleet] = map[string]error{}
	}
	v.all[fleet][hash] = said
}

// mostOverrides is how many a fleet may have.
const mostOverrides = 64

// validateTemplates has the API server look at the merged templates, which it has never seen as a whole, before any of them is applied.
// It is asked once for each, and with a dry run.
func (r *Observer) validateTemplates(ctx context.Context, s *Scope) (*Problem, error) {
	known := map[string]bool{}
	for _, m := range s.Members {
		t := m.template
		if t.hash == "" || !m.Selected || known[t.hash] {
			continue
		}
		asked, said := r.validated.validationOf(s.Fleet.UID, t.hash)
		if !asked {
			var err error
			if asked, said, err = r.askForValidation(ctx, s.Fleet, m); err != nil {
				return nil, fmt.Errorf("having the API server validate %s of machine fleet %s: %w", t.field, s.Fleet.Name, err)
			}
		}
		if !asked {
			continue // Another cluster may say.
		}
		known[t.hash] = true
		r.validated.setValidation(s.Fleet.UID, t.hash, said)
		if said != nil {
			return &Problem{v1alpha1.ReasonInvalidFleet, t.describeRefusal(said)}, nil
		}
	}
	return nil, nil
}

// askForValidation returns what the API server says of a member's template. It says nothing of it where nothing may be created.
func (r *Observer) askForValidation(ctx context.Context, fleet *v1alpha1.MachineFleet, m *Member) (asked bool, said, err error) {
	wanted, err := NewApplied(fleet, m.template.MachineDeploymentTemplate, m.Cluster.Name, m.replicas).NewDeployment(fleet.Name, &Record{})
	if err != nil {
		return false, nil, err
	}
	err = r.Client.Create(ctx, wanted, client.DryRunAll, FieldOwner)
	switch {
	case err == nil, apierrors.IsAlreadyExists(err): // It is validated first.
		return true, nil, nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return true, err, nil
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return false, nil, nil
	}
	return false, nil, err
}

// describeRefusal says what the API server does not take, by its field in the spec of the fleet.
func (t *template) describeRefusal(said error) string {
	var status apierrors.APIStatus
	if errors.As(said, &status) {
		if details := status.Status().Details; details != nil && len(details.Causes) > 0 {
			return fmt.Sprintf("%s.%s: with spec.template it is not a valid MachineDeployment: %s: correct or remove it", t.field, details.Causes[0].Field, details.Causes[0].Message)
		}
	}
	return fmt.Sprintf("%s: with spec.template it is not a valid MachineDeployment: %v: correct or remove it", t.field, said)
}
