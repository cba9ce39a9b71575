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

// SameTemplate tells whether two templates mean the same, whatever the order of keys in a provider's
// configuration and whatever their template hash.
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

// canonical is template's JSON with sorted keys, without the hash label that the hub adds.
func canonical(template v1alpha1.MachineTemplate) ([]byte, error) {
	template.Metadata.Labels = maps.Clone(template.Metadata.Labels)
	delete(template.Metadata.Labels, v1alpha1.MachineTemplateHashLabel)
	text, err := json.Marshal(template)
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
