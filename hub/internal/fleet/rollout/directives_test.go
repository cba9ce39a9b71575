package rollout

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Edge case: `$retainKeys` made the hub panic.
func TestAnOverrideWithABadDirectiveIsNamed(t *testing.T) {
	for patch, want := range map[string]string{
		`{"spec":{"$retainKeys":[1,{}]}}`:  "spec.overrides[a].template.spec.$retainKeys: want a list of keys",
		`{"spec":{"$retainKeys":{"a":1}}}`: "spec.overrides[a].template.spec.$retainKeys: want a list of keys",
		`{"spec":{"$patch":["replace"]}}`:  "spec.overrides[a].template.spec.$patch: want merge, replace or delete",
		`{"$setElementOrder/x":[{}]}`:      "spec.overrides[a].template.$setElementOrder/x: unknown directive",
		`{"spec":{"template":{"spec":{"providerConfig":{"value":{"x":[{"$deleteFromPrimitiveList/y":5}]}}}}}}`: "$deleteFromPrimitiveList/y: unknown directive",
		`{"metadata":{"annotations":{"hollowfleet.io/freeze":"x"}}}`:                                           "spec.overrides[a].template.metadata.annotations[hollowfleet.io/freeze]: programs write it",
	} {
		fleet := &v1alpha1.MachineFleet{}
		fleet.Spec.Overrides = []v1alpha1.MachineFleetOverride{{Name: "a", Template: &runtime.RawExtension{Raw: []byte(patch)}}}
		_, invalid := mergedTemplates(fleet)
		NewWithT(t).Expect(invalid).NotTo(BeNil(), patch)
		NewWithT(t).Expect(invalid.Message).To(ContainSubstring(want), patch)
	}
}
