package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Claim: Another spelling of a template, or a hub upgrade, replaces no Machine. Broken: templates are compared as text. Also: TestHashesOfAnOlderHubStay; hub/internal/machinedeployment TestAnotherSpellingReplacesNothing.
// Edge case: Equivalent spellings replaced Machines. Also: TestHashesOfAnOlderHubStay; hub/internal/machinedeployment TestAnotherSpellingReplacesNothing.
func TestTemplatesAreComparedByMeaning(t *testing.T) {
	files, _ := filepath.Glob("testdata/meaning/*.yaml")
	if len(files) == 0 {
		t.Fatal("there is no corpus")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var test struct {
				Same bool
				A, B v1alpha1.MachineTemplateBody
			}
			if err := yaml.UnmarshalStrict(text, &test); err != nil {
				t.Fatal(err)
			}
			a, b := v1alpha1.MachineTemplate{Spec: test.A}, v1alpha1.MachineTemplate{Spec: test.B}
			before := *a.DeepCopy()
			for _, pair := range [][2]v1alpha1.MachineTemplate{{a, b}, {b, a}} {
				if same, err := SameTemplate(pair[0], pair[1]); err != nil || same != test.Same {
					t.Errorf("same is %t, %v", same, err)
				}
			}
			for _, template := range []v1alpha1.MachineTemplate{a, b} {
				if same, err := SameTemplate(template, template); err != nil || !same {
					t.Errorf("a template is not the same as itself: %v", err)
				}
			}
			if a.Spec.Versions != before.Spec.Versions || a.Spec.ProviderConfig.Provider != before.Spec.ProviderConfig.Provider {
				t.Error("comparing changed the template")
			}
		})
	}
}

// The names of the MachineSets that an older hub made follow from the text of their templates.
func TestHashesOfAnOlderHubStay(t *testing.T) {
	for version, want := range map[string]string{"v1.36.2": "6768c56cc8", "1.36.2": "5478cc7764"} {
		old := template(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","capacity":{"memory":"32768Mi"}}`)
		old.Spec.Versions.Kubelet = version
		if hash, err := Hash(old, 0); err != nil || hash != want {
			t.Errorf("the hash of %s is %s, %v", version, hash, err)
		}
	}
}
