package plan

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func readCase(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile("../../../../test/cases/testdata/" + file)
	if err == nil {
		err = yaml.UnmarshalStrict(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestPublicCasesOfSpellingAreTheSame(t *testing.T) {
	deployment := &v1alpha1.MachineDeployment{}
	readCase(t, "06-same-template.yaml", deployment)
	base := deployment.Spec.Template
	for what, change := range map[string]func(*v1alpha1.MachineTemplateBody){
		"a version without v":      func(b *v1alpha1.MachineTemplateBody) { b.Versions.Kubelet = "1.36.2" },
		"the provider written out": func(b *v1alpha1.MachineTemplateBody) { b.ProviderConfig.Provider = "hollow" },
		"keys in another order, and 32768Mi for 32Gi": func(b *v1alpha1.MachineTemplateBody) {
			b.ProviderConfig.Value = &runtime.RawExtension{Raw: []byte(`{"capacity":{"memory":"32768Mi","cpu":8},"kind":"HollowNodeConfig","apiVersion":"hollowfleet.io/v1alpha1"}`)}
		},
	} {
		changed := *base.DeepCopy()
		change(&changed.Spec)
		if same, err := SameTemplate(base, changed); err != nil || !same {
			t.Errorf("%s: same is %t, %v", what, same, err)
		}
	}
	// The fleet of the sibling had v1.37.1 before.
	patch := &v1alpha1.MachineFleet{}
	readCase(t, "06-sibling-fleet.yaml", patch)
	before, after := *base.DeepCopy(), *base.DeepCopy()
	before.Spec.Versions.Kubelet, after.Spec.Versions = "v1.37.1", patch.Spec.Template.Spec.Template.Spec.Versions
	if same, err := SameTemplate(before, after); err != nil || !same || after.Spec.Versions.Kubelet != "1.37.1" {
		t.Errorf("from %s to %s: same is %t, %v", before.Spec.Versions.Kubelet, after.Spec.Versions.Kubelet, same, err)
	}
	before.Spec.Versions.Kubelet = "v1.37.0"
	if same, err := SameTemplate(before, after); err != nil || same {
		t.Errorf("another version is the same: %t, %v", same, err)
	}
}
