package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// SameTemplate tells whether a Machine of one template can become one of the other without being replaced or
// updated: whether they differ at most in the order of keys in a provider's configuration and in what Propagate
// takes over.
func SameTemplate(a, b v1alpha1.MachineTemplate) (bool, error) {
	left, err := canonical(a)
	if err != nil {
		return false, err
	}
	right, err := canonical(b)
	if err != nil {
		return false, err
	}
	return bytes.Equal(left, right), nil
}

// Hash names a template in at most 10 characters that are allowed in names and labels. Two templates may
// have one hash; collisions then chooses another.
func Hash(template v1alpha1.MachineTemplate, collisions int32) (string, error) {
	text, err := canonical(template)
	if err != nil {
		return "", err
	}
	sum := fnv.New32a()
	sum.Write(text) // Never fails.
	if collisions > 0 {
		fmt.Fprintf(sum, "/%d", collisions)
	}
	return rand.SafeEncodeString(fmt.Sprint(sum.Sum32())), nil
}

// Propagate returns template with all that needs no replacement taken from wanted: the metadata of Machines, and
// what the agent keeps in sync on a Node or reads anew each time. Labels in keep, the selector of template's set,
// stay as they are.
func Propagate(template, wanted v1alpha1.MachineTemplate, keep map[string]string) v1alpha1.MachineTemplate {
	result := *template.DeepCopy()
	result.Spec.TakeOver(&wanted.Spec)
	result.Metadata = *wanted.Metadata.DeepCopy()
	if result.Metadata.Labels == nil {
		result.Metadata.Labels = map[string]string{}
	}
	maps.Copy(result.Metadata.Labels, keep)
	if hash, found := template.Metadata.Labels[v1alpha1.MachineTemplateHashLabel]; found {
		result.Metadata.Labels[v1alpha1.MachineTemplateHashLabel] = hash
	}
	return result
}

// canonical is the JSON, with sorted keys, of what cannot change without an update or a replacement.
func canonical(template v1alpha1.MachineTemplate) ([]byte, error) {
	body := template.Spec
	body.TakeOver(&v1alpha1.MachineTemplateBody{})
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("reading machine template: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("reading machine template: %w", err)
	}
	text, err = json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("reading machine template: %w", err)
	}
	return text, nil
}
