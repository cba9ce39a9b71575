package api_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// Agents write statuses, and a hub keeps all of them in memory.
// Edge case: A status could exceed a megabyte.
func TestStatusesAreBounded(t *testing.T) {
	for resource := range kinds {
		text, err := config.CRDs.ReadFile("crd/hollowfleet.io_" + resource + ".yaml")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		definition := &apiextensionsv1.CustomResourceDefinition{}
		NewWithT(t).Expect(yaml.Unmarshal(text, definition)).To(Succeed())
		endless(t, definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"], resource+".status")
	}
	machine := full(t)["machine"]
	stored := store(t, machine)
	for path, value := range map[string]any{
		"errorMessage": strings.Repeat("x", 5000), "failureMessage": strings.Repeat("x", 5000),
		"addresses": []any{map[string]any{"type": "InternalIP", "address": strings.Repeat("x", 300)}},
	} {
		changed := stored.DeepCopy()
		NewWithT(t).Expect(unstructured.SetNestedField(changed.Object, value, "status", path)).To(Succeed())
		content, err := changed.MarshalJSON()
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		err = testenv.Server().Client.Status().Patch(t.Context(), changed, client.RawPatch(types.MergePatchType, content))
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("status."+path)), path)
	}
}

// endless fails the test for each text, list and map without a bound.
func endless(t *testing.T, schema apiextensionsv1.JSONSchemaProps, path string) {
	t.Helper()
	switch {
	case schema.Type == "string" && schema.MaxLength == nil && len(schema.Enum) == 0:
		t.Errorf("%s: give it a maxLength", path)
	case schema.Type == "array" && schema.MaxItems == nil:
		t.Errorf("%s: give it maxItems", path)
	case schema.AdditionalProperties != nil && schema.MaxProperties == nil:
		t.Errorf("%s: give it maxProperties", path)
	}
	for name, property := range schema.Properties {
		endless(t, property, path+"."+name)
	}
	if schema.Items != nil && len(schema.XValidations) == 0 { // Types of other packages are bounded by a rule.
		endless(t, *schema.Items.Schema, path+"[]")
	}
}

// Who owns each field inside of an object without a schema would cost its depth squared, at each write.
// Claim: What has no schema has one owner. Broken: markers removed, six places are named; 5,000 levels took 3 seconds a write.
func TestWhatHasNoSchemaHasOneOwner(t *testing.T) {
	found := 0
	for resource := range kinds {
		text, err := config.CRDs.ReadFile("crd/hollowfleet.io_" + resource + ".yaml")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		var above string
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line == "x-kubernetes-preserve-unknown-fields: true" {
				found++
				NewWithT(t).Expect(above).To(Equal("x-kubernetes-map-type: atomic"), "%s: mark the field with +mapType=atomic", resource)
			}
			above = line
		}
	}
	NewWithT(t).Expect(found).To(BeNumerically(">", 5))
}
