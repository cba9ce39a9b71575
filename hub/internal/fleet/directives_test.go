package fleet

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Edge case: A template could set freezes.
func TestATemplateSetsNothingThatTheHubWrites(t *testing.T) {
	f := newEnv(t, 1, func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Template.Metadata.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
	})
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("-"))
	f.Expect(f.status().Message).To(ContainSubstring("spec.template.metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]"))
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Template.Metadata.Annotations = map[string]string{v1alpha1.AutoscalerMaxSizeAnnotation: "3"}
	})
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2"))
}
