package admission_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
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
// Edge case: An override of 20,000 keys was accepted; 100,000 numbers kept the API server busy beyond its timeout.
func TestOverridesOfFleetsAreBounded(t *testing.T) {
	g, c := NewWithT(t), testenv.Server().Client
	stored := overridden(keys(20_000)) // From before there was a bound.
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "hollowfleet-fleet-overrides"}}
	g.Expect(client.IgnoreNotFound(c.Delete(t.Context(), binding))).To(Succeed(), "a test before may have applied all policies")
	g.Eventually(func() error { return c.Create(t.Context(), stored) }).WithTimeout(time.Minute).Should(Succeed(), "the policy of a test before is gone")
	storedDeep := overridden(nested(2_000, `{"a":`, `1`, `}`))
	g.Expect(c.Create(t.Context(), storedDeep)).To(Succeed())
	applyPolicies(t, "overrides")
	tooLong := MatchError(ContainSubstring("spec.overrides[east].template: is longer than 32768 characters: write only what differs"))
	unwieldy := MatchError(ContainSubstring("spec.overrides[east].template: has more than 10 levels, or a list or map with more than 4096 entries: write only"))
	g.Eventually(func() error { return c.Create(t.Context(), overridden(keys(20_000)), client.DryRunAll) }).
		WithTimeout(time.Minute).Should(unwieldy, "the policy counts")
	for what, config := range map[string]string{
		"many keys":      `{"a":` + keys(4_000) + `,"b":` + keys(4_000) + `}`,
		"a long text":    `{"a":"` + strings.Repeat("x", 40_000) + `"}`,
		"a megabyte":     `{"a":"` + strings.Repeat("x", 1<<20) + `"}`,
		"a long key":     `{"` + strings.Repeat("x", 40_000) + `":null}`,
		"numbers":        `{"a":[[` + strings.Repeat("1,", 4_000) + `1.5],[` + strings.Repeat("1000000,", 4_000) + `1.5]]}`,
		"empty lists":    `[` + strings.Repeat(`[`+strings.Repeat("[],", 200)+`{}],`, 100) + `{}]`,
		"much in depth":  `{"a":[[{"b":` + keys(3_500) + `}]]}`,
		"true and nulls": `[` + `"` + strings.Repeat("x", 32_700) + `",` + strings.Repeat("true,null,", 1_000) + `false]`,
	} {
		begun := time.Now()
		g.Expect(c.Create(t.Context(), overridden(config), client.DryRunAll)).To(tooLong, what)
		t.Log(what, time.Since(begun))
	}
	for what, config := range map[string]string{
		"many keys":     keys(20_000),
		"4,097 entries": `{"a":[` + strings.Repeat("1,", 4_096) + `1]}`,
		"numbers":       `{"a":[` + strings.Repeat("1,", 500_000) + `1.5]}`,
		"empty lists":   `[{"b":[` + strings.Repeat("[],", 200_000) + `{}]}]`,
	} {
		begun := time.Now()
		g.Expect(c.Create(t.Context(), overridden(config), client.DryRunAll)).To(unwieldy, what)
		t.Log(what, time.Since(begun))
	}
	g.Expect(c.Create(t.Context(), overridden(`[`+strings.Repeat(`[`+strings.Repeat("1,", 100)+`{}],`, 999)+`{}]`), client.DryRunAll)).
		To(MatchError(ContainSubstring("'hollowfleet-fleet-overrides' denied request")), "100,000 entries in short lists cost more than a policy may")
	expectTooDeep(t)
	for what, config := range map[string]string{
		"nothing": `{}`, "10 levels": nested(4, `{"a":`, `{}`, `}`), "2,000 keys": `{"a":` + keys(1_000) + `,"l":[` + strings.Repeat("1,", 4_095) + `1],"b":null,"c":[1,2.5,true,"x",{}]}`, "a text": `{"a":"` + strings.Repeat("x", 16_000) + `"}`,
	} {
		g.Expect(c.Create(t.Context(), overridden(config), client.DryRunAll)).To(Succeed(), what)
	}
	many := overridden(`{}`)
	many.Spec.Overrides = append(many.Spec.Overrides, v1alpha1.MachineFleetOverride{Name: "west", Replicas: new(int32(1))}, overridden(`{"a":"` + strings.Repeat("x", 40_000) + `"}`).Spec.Overrides[0])
	many.Spec.Overrides[2].Name = "south"
	g.Expect(c.Create(t.Context(), many, client.DryRunAll)).To(MatchError(ContainSubstring("spec.overrides[south].template: is longer than")))

	for _, earlier := range []*v1alpha1.MachineFleet{stored, storedDeep} {
		for _, text := range []string{`{"spec":{"paused":true}}`, `{"metadata":{"finalizers":[]}}`, `{"spec":{"overrides":[]}}`} {
			g.Expect(c.Patch(t.Context(), earlier.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)).
				To(Succeed(), "one that is stored can be paused and repaired: %s", text)
		}
	}
	g.Expect(c.Delete(t.Context(), storedDeep)).To(Succeed())
	longer := stored.DeepCopy()
	longer.Spec.Overrides[0].Template = overridden(keys(20_001)).Spec.Overrides[0].Template
	g.Expect(c.Update(t.Context(), longer, client.DryRunAll)).To(unwieldy, "it can not become longer")
	g.Expect(c.Delete(t.Context(), stored)).To(Succeed())
}

// nested is that many levels of an object or a list around inner.
func nested(levels int, start, inner, end string) string {
	return strings.Repeat(start, levels) + inner + strings.Repeat(end, levels)
}

// Edge case: An override of 5,000 levels in 32,768 characters was accepted, after 7 seconds.
func expectTooDeep(t *testing.T) {
	t.Helper()
	g, c := NewWithT(t), testenv.Server().Client
	for what, config := range map[string]string{
		"11 levels":              nested(5, `{"a":`, `{}`, `}`),
		"11 levels of lists":     `{"a":` + nested(4, `[`, `[]`, `]`) + `}`,
		"5,000 levels":           nested(5_000, `{"a":`, `1`, `}`),
		"9,000 lists":            `{"a":` + nested(9_000, `[`, `1`, `]`) + `}`,
		"behind much else":       `{"a":` + keys(2_000) + `,"z":` + nested(5_000, `{"a":`, `1`, `}`) + `}`,
		"beside something each":  nested(5_000, `{"x":{},"a":`, `1`, `}`),
		"long keys in each":      nested(1_500, `{"`+strings.Repeat("k", 100)+`":`, `1`, `}`),
		"a list and a map, long": nested(1_000, `[{"a":`, `"`+strings.Repeat("x", 500_000)+`"`, `}]`),
	} {
		if !strings.HasPrefix(config, "{") {
			config = `{"a":` + config + `}`
		}
		begun := time.Now()
		g.Expect(c.Create(t.Context(), overridden(config), client.DryRunAll)).
			To(MatchError(ContainSubstring("spec.overrides[east].template: has more than 10 levels, or a list or map with more than 4096 entries: write only fields of spec.template")), what)
		t.Log(what, time.Since(begun))
	}
}

// Before, each field inside a configuration had an owner of its own.
func TestAConfigurationThatWasAppliedBeforeIsReplacedAsAWhole(t *testing.T) {
	g, c := NewWithT(t), testenv.Server().Client
	apply := func(manager, config string) (map[string]any, error) {
		applied := &unstructured.Unstructured{}
		g.Expect(json.Unmarshal([]byte(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"MachineClass","metadata":{"name":"applied","namespace":"default"},
			"spec":{"provider":"own","providerConfig":`+config+`}}`), &applied.Object)).To(Succeed())
		err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(manager))
		found, _, _ := unstructured.NestedMap(applied.Object, "spec", "providerConfig")
		return found, err
	}
	g.Expect(testenv.Server().Loosely(t.Context(), func(context.Context) error {
		_, err := apply("one", `{"a":{"b":"x","c":"y"}}`)
		return err
	}, "machineclasses.hollowfleet.io")).To(Succeed())
	g.Eventually(func(g Gomega) {
		found, err := apply("one", `{"a":{"b":"z"}}`)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found).To(Equal(map[string]any{"a": map[string]any{"b": "z"}}))
		_, err = apply("two", `{"d":"e"}`)
		g.Expect(err).To(MatchError(ContainSubstring(`conflict with "one": .spec.providerConfig`)))
	}).WithTimeout(time.Minute).Should(Succeed())
}
