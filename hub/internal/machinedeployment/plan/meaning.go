package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// NormalizeTemplate returns template in one spelling: two that differ only in how a version, a quantity, a duration or a default is
// written are equal in it. Only comparisons rest on it. Names and hashes rest on the text, so that those of an older hub stay.
func NormalizeTemplate(template v1alpha1.MachineTemplate) v1alpha1.MachineTemplate {
	body := &template.Spec
	if kubelet := body.Versions.Kubelet; kubelet != "" {
		body.Versions.Kubelet = "v" + strings.TrimPrefix(kubelet, "v")
	}
	config := &body.ProviderConfig
	if config.Provider == v1alpha1.ProviderHollow {
		config.Provider = ""
	}
	if config.Provider == "" && config.Value != nil {
		if value, err := hollowMeaning(config.Value.Raw); err == nil {
			config.Value = &runtime.RawExtension{Raw: value}
		}
	}
	return template
}

// spelling is how the value of one field is written, or nil if it is what the field has anyway.
type spelling func(any) any

// hollowFields are the fields of a HollowNodeConfig whose values can be written in several ways.
var hollowFields = map[string]spelling{
	"capacity": spellEach(spellQuantity), "podResources": spellEach(spellQuantity),
	"startupDelay": omitDefault("0s", spellDuration), "healthyDuration": spellDuration, "unhealthyDuration": spellDuration,
	"maxPods": omitDefault(json.Number("110"), nil), "osImage": omitDefault("Hollow Linux", nil), "profile": omitDefault(string(v1alpha1.HollowNodeProfileFast), nil),
	"kubelet":            spellFields(nil),
	"turnUnhealthyAfter": omitDefault(false, nil), "turnUnhealthyPeriodically": omitDefault(false, nil),
	"imagePull": spellFields(map[string]spelling{
		"bytesPerSecond": spellQuantity, "failurePercent": omitDefault(json.Number("0"), nil), "seed": omitDefault(json.Number("0"), nil),
	}),
}

// hollowMeaning is a HollowNodeConfig in one spelling.
func hollowMeaning(raw []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value map[string]any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("reading the provider's configuration: %w", err)
	}
	if value["kind"] != v1alpha1.HollowNodeConfigKind || value["apiVersion"] != v1alpha1.GroupVersion.String() {
		return raw, nil
	}
	spelled, _ := spellFields(hollowFields)(value).(map[string]any)
	return json.Marshal(spelled)
}

// spellFields spells those of an object, and leaves out what is empty.
func spellFields(known map[string]spelling) spelling {
	return func(value any) any {
		object, is := value.(map[string]any)
		if !is {
			return value
		}
		all := map[string]any{}
		for key, field := range object {
			if spell := known[key]; spell != nil {
				field = spell(field)
			}
			if !isEmpty(field) {
				all[key] = field
			}
		}
		return all
	}
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	}
	return false
}

// spellEach spells all values of an object.
func spellEach(spell spelling) spelling {
	return func(value any) any {
		object, is := value.(map[string]any)
		if !is {
			return value
		}
		all := map[string]any{}
		for key, field := range object {
			all[key] = spell(field)
		}
		return all
	}
}

// omitDefault leaves out the default.
func omitDefault(usual any, spell spelling) spelling {
	return func(value any) any {
		if spell != nil {
			value = spell(value)
		}
		if value == usual {
			return nil
		}
		return value
	}
}

func spellQuantity(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return value
	}
	found, err := v1alpha1.DecodeQuantity(text)
	if err != nil {
		return value
	}
	return resource.NewDecimalQuantity(*found.AsDec(), resource.DecimalSI).String()
}

func spellDuration(value any) any {
	text, is := value.(string)
	if !is {
		return value
	}
	found, err := time.ParseDuration(text)
	if err != nil {
		return value
	}
	return found.String()
}
