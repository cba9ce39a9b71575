package admission_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// fleet is a MachineFleet of no cluster.
func fleet() *v1alpha1.MachineFleet {
	from := deployment().Spec
	made := &v1alpha1.MachineFleet{}
	made.Name = uniqueName()
	made.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: labels()}
	made.Spec.Template.Spec = v1alpha1.MachineDeploymentTemplateSpec{Selector: from.Selector, Template: from.Template}
	return made
}

// configured are the kinds that have a provider's configuration, and where.
func configured(value string) map[string]client.Object {
	config := v1alpha1.ProviderConfig{Provider: "own", Value: raw(value)}
	return map[string]client.Object{
		"spec.providerConfig":                                   with(class(), func(c *v1alpha1.MachineClass) { c.Spec.Provider, c.Spec.ProviderConfig = "own", raw(value) }),
		"spec.providerConfig.value":                             with(machine(), func(m *v1alpha1.Machine) { m.Spec.ProviderConfig = config }),
		"spec.template.spec.providerConfig.value":               with(set(), func(s *v1alpha1.MachineSet) { s.Spec.Template.Spec.ProviderConfig = config }),
		" spec.template.spec.providerConfig.value":              with(deployment(), func(d *v1alpha1.MachineDeployment) { d.Spec.Template.Spec.ProviderConfig = config }),
		"spec.template.spec.template.spec.providerConfig.value": with(fleet(), func(f *v1alpha1.MachineFleet) { f.Spec.Template.Spec.Template.Spec.ProviderConfig = config }),
	}
}

// keys is an object with many.
func keys(count int) string {
	fields := map[string]string{}
	for i := range count {
		fields[fmt.Sprintf("key-%05d", i)] = "x"
	}
	text, _ := json.Marshal(fields) // Texts never fail.
	return string(text)
}

// The hub copies a configuration into every MachineSet and Machine, and every agent keeps it.
// Claim: Provider configurations are bounded. Broken: before the policy one of 30,000 fields was copied into sets and Machines; a first form of the policy ran out of its own cost.
// Edge case: 30,000 keys kept the API server busy.
func TestConfigurationsOfProvidersAreBounded(t *testing.T) {
	g, c := NewWithT(t), testenv.Server().Client
	applyPolicies(t, "providerconfig")
	long := strings.Repeat("x", 17_000)
	g.Eventually(func() error {
		return c.Create(t.Context(), with(machine(), func(m *v1alpha1.Machine) {
			m.Spec.ProviderConfig = v1alpha1.ProviderConfig{Provider: "own", Value: raw(`{"a":"` + long + `"}`)}
		}), client.DryRunAll)
	}).WithTimeout(time.Minute).Should(MatchError(ContainSubstring("characters of keys and texts: write at most")), "the policy counts")
	for what, value := range map[string]string{
		"many fields": keys(65), "many fields in one": `{"capacity":` + keys(3_000) + `}`, "a long text": `{"a":"` + long + `"}`, "depth": `{"a":{"b":{"c":{"d":{"e":{"f":1}}}}}}`,
	} {
		for field, object := range configured(value) {
			expectTooMuch(t, what, strings.TrimSpace(field), object)
		}
	}
	for what, value := range map[string]string{
		"30,000 fields": keys(30_000), "many fields in a list": `{"a":[` + keys(3_000) + `]}`, "a long key": `{"` + long + `":1}`,
		"many numbers": `{"a":[` + strings.Repeat("1,", 20_000) + `1]}`, "many empty lists": `{"a":[` + strings.Repeat("[],", 20_000) + `[]]}`,
		"much in many parts": `{"a":` + keys(600) + `,"b":` + keys(600) + `,"c":` + keys(600) + `}`, "much in depth": `{"a":[[` + keys(3_000) + `]]}`,
		"deep lists": `{"a":[[[[[1]]]]]}`, "much at the fifth level": `{"a":[[[` + keys(3_000) + `]]]}`, "a megabyte": `{"a":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		expectTooMuch(t, what, "spec.providerConfig.value", configured(value)["spec.providerConfig.value"])
	}
	for what, value := range map[string]string{
		"nothing": `{}`, "64 fields": keys(64), "1,000 characters": `{"a":"` + strings.Repeat("x", 1000) + `"}`,
		"five levels": `{"a":[{"b":{"c":{"g":1,"d":true,"e":null,"f":1.5}}}]}`, "1,100 keys at the fifth level": `{"a":[[[` + keys(1_100) + `]]]}`, "empty lists": `{"a":[],"b":{},"c":[{},[]]}`,
	} {
		for field, object := range configured(value) {
			g.Expect(c.Create(t.Context(), object, client.DryRunAll)).To(Succeed(), "%s in %s", what, field)
		}
	}
}

func expectTooMuch(t *testing.T, what, field string, object client.Object) {
	t.Run(what+" in "+field, func(t *testing.T) {
		err := testenv.Server().Client.Create(t.Context(), object, client.DryRunAll)
		NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring(field+": "), Or(ContainSubstring(": write at most "), ContainSubstring("must have at most 64 items")))))
	})
}
