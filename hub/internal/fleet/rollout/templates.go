package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	strictjson "sigs.k8s.io/json"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// MostOverrideBytes is how large the templates of a fleet's overrides may be together: they are kept with each revision.
const MostOverrideBytes = 256 << 10

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
