package plane

import (
	"encoding/json"
	"regexp"

	"k8s.io/kube-openapi/pkg/validation/spec"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
)

var reference = regexp.MustCompile(`"\$ref":"[^"]*"`)

// ChangedDefinitions names the definitions which all planes share that are not as they were made, but for how they refer to others.
func ChangedDefinitions() ([]string, error) {
	made := generatedopenapi.GetOpenAPIDefinitions(spec.MustCreateRef)
	openAPI.defining.Lock()
	defer openAPI.defining.Unlock()
	changed := []string{}
	for example, definitions := range openAPI.definitions {
		for name, definition := range definitions {
			got, err := json.Marshal(definition)
			if err != nil {
				return nil, err
			}
			want, err := json.Marshal(made[name])
			if err != nil {
				return nil, err
			}
			if string(reference.ReplaceAll(got, nil)) != string(reference.ReplaceAll(want, nil)) {
				changed = append(changed, example+": "+name)
			}
		}
	}
	return changed, nil
}
