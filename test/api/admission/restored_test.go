package admission_test

import (
	"maps"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func hashed(value string) map[string]string {
	all := maps.Clone(labels())
	all[v1alpha1.MachineTemplateHashLabel] = value
	return all
}

// A backup tool strips owner references: what the hub wrote has to pass without them. What it never writes is refused with them, too,
// because anyone can write an owner reference.
// Edge case: Backups could not restore MachineSets. Also: hub/internal/machinedeployment TestMachineSetsCanBeRestored.
func TestMachineSetsOfTheHubCanBeRestoredWithoutOwner(t *testing.T) {
	g, c := NewWithT(t), testenv.Server().Client
	applyMachinesPolicy(t, c)
	restored := set()
	restored.Spec.Selector.MatchLabels, restored.Spec.Template.Metadata.Labels = hashed("5f7bd68859"), hashed("5f7bd68859")
	g.Eventually(func() error { return c.Create(t.Context(), restored, client.DryRunAll) }).WithTimeout(time.Minute).Should(Succeed())

	differs, selectsNone, deploys := set(), set(), deployment()
	differs.Spec.Selector.MatchLabels, differs.Spec.Template.Metadata.Labels = labels(), hashed("a")
	selectsNone.Spec.Selector.MatchLabels, selectsNone.Spec.Template.Metadata.Labels = hashed("a"), hashed("b")
	deploys.Spec.Selector.MatchLabels, deploys.Spec.Template.Metadata.Labels = hashed("a"), hashed("a")
	owned := set()
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
	owned.Spec.Template.Metadata.Labels = hashed("a")
	for name, object := range map[string]client.Object{
		"in the template only": differs, "of a MachineDeployment": deploys, "with an owner": owned,
	} {
		g.Expect(c.Create(t.Context(), object, client.DryRunAll)).To(MatchError(ContainSubstring(
			"spec.template.metadata.labels: hollowfleet.io/machine-template-hash is reserved")), name)
	}
	g.Expect(c.Create(t.Context(), selectsNone, client.DryRunAll)).To(MatchError(ContainSubstring("spec.selector")))
}
