package admission_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// overridden is a fleet with one override, whose template has a configuration.
func overridden(config string) *v1alpha1.MachineFleet {
	made := fleet()
	made.Spec.Overrides = []v1alpha1.MachineFleetOverride{{
		Name: "east", ClusterSelector: metav1.LabelSelector{}, Template: raw(`{"spec":{"template":{"spec":{"providerConfig":{"value":` + config + `}}}}}`),
	}}
	return made
}

// The hub keeps each override with each revision, and merges it for each cluster.
// Claim: An override of a fleet is bounded; one that is stored can be paused, repaired and deleted. Broken: the code before.
// Edge case: An override of 20,000 keys was accepted.
func TestOverridesOfFleetsAreBounded(t *testing.T) {
	g, c := NewWithT(t), environment.Client
	stored := overridden(keys(20_000)) // From before there was a bound.
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "hollowfleet-fleet-overrides"}}
	g.Expect(client.IgnoreNotFound(c.Delete(t.Context(), binding))).To(Succeed(), "a test before may have applied all policies")
	g.Eventually(func() error { return c.Create(t.Context(), stored) }).WithTimeout(time.Minute).Should(Succeed(), "the policy of a test before is gone")
	applyPolicies(t, "overrides")
	tooLong := MatchError(ContainSubstring("spec.overrides[east].template: is longer than 32768 characters: write only what differs"))
	g.Eventually(func() error { return c.Create(t.Context(), overridden(keys(20_000)), client.DryRunAll) }).
		WithTimeout(time.Minute).Should(tooLong, "the policy counts")
	for what, config := range map[string]string{
		"many keys":      keys(20_000),
		"a long text":    `{"a":"` + strings.Repeat("x", 40_000) + `"}`,
		"a megabyte":     `{"a":"` + strings.Repeat("x", 1<<20) + `"}`,
		"a long key":     `{"` + strings.Repeat("x", 40_000) + `":null}`,
		"numbers":        `{"a":[` + strings.Repeat("1,", 20_000) + `1.5]}`,
		"empty lists":    `{"a":[` + strings.Repeat("[],", 20_000) + `{}]}`,
		"much in depth":  `{"a":[[{"b":[[{"c":[[` + keys(3_000) + `]]}]]}]]}`,
		"true and nulls": `[` + strings.Repeat("true,null,", 5_000) + `false]`,
	} {
		begun := time.Now()
		g.Expect(c.Create(t.Context(), overridden(config), client.DryRunAll)).To(tooLong, what)
		g.Expect(time.Since(begun)).To(BeNumerically("<", 5*time.Second), what)
	}
	for what, config := range map[string]string{
		"nothing": `{}`, "2,000 keys": `{"a":` + keys(1_000) + `,"b":null,"c":[1,2.5,true,"x",{}]}`, "a text": `{"a":"` + strings.Repeat("x", 16_000) + `"}`,
	} {
		g.Expect(c.Create(t.Context(), overridden(config), client.DryRunAll)).To(Succeed(), what)
	}
	many := overridden(`{}`)
	many.Spec.Overrides = append(many.Spec.Overrides, v1alpha1.MachineFleetOverride{Name: "west", Replicas: new(int32(1))}, overridden(keys(5_000)).Spec.Overrides[0])
	many.Spec.Overrides[2].Name = "south"
	g.Expect(c.Create(t.Context(), many, client.DryRunAll)).To(MatchError(ContainSubstring("spec.overrides[south].template: is longer than")))

	patch := func(text string) error {
		return c.Patch(t.Context(), stored.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
	}
	g.Expect(patch(`{"spec":{"paused":true}}`)).To(Succeed(), "one that is stored can be paused")
	g.Expect(patch(`{"metadata":{"finalizers":[]}}`)).To(Succeed())
	g.Expect(patch(`{"spec":{"overrides":[]}}`)).To(Succeed(), "and repaired")
	longer := stored.DeepCopy()
	longer.Spec.Overrides[0].Template = overridden(keys(20_001)).Spec.Overrides[0].Template
	g.Expect(c.Update(t.Context(), longer, client.DryRunAll)).To(tooLong, "it can not become longer")
	g.Expect(c.Delete(t.Context(), stored)).To(Succeed())
}
