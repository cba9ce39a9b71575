package admission_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

const held = "example.com/held"

// applyPolicies applies policies for one test.
func applyPolicies(t *testing.T, names ...string) {
	t.Helper()
	g := NewWithT(t)
	for _, name := range names {
		file := "admission/" + name + ".yaml"
		text, err := config.Admission.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(config.Apply(t.Context(), testenv.Server().Client, fstest.MapFS{file: {Data: text}}, "admission")).To(Succeed())
		for _, line := range strings.Split(string(text), "\n") {
			if policy, found := strings.CutPrefix(line, "  policyName: "); found {
				t.Cleanup(func() {
					meta := metav1.ObjectMeta{Name: policy}
					g.Expect(testenv.Server().Client.Delete(context.Background(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta})).To(Succeed())
				})
			}
		}
	}
}

// ofEarlierSchema makes an object without its agent's or hub's knowledge of what a spec is.
func ofEarlierSchema(kind, name string, spec any, hasSpec bool) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	object.SetName(name)
	switch kind {
	case "LoadTest", "NodeDisruption", "MachineFleet":
	default:
		object.SetNamespace(namespace)
	}
	object.SetFinalizers([]string{held})
	if hasSpec {
		object.Object["spec"] = spec
	}
	return object
}

// repairs are specs that are right.
var repairs = map[string]string{
	"MachineClass":      `{"provider":"hollow"}`,
	"Machine":           `{"clusterName":"default","providerConfig":{"valueRef":{"name":"x"}}}`,
	"MachineSet":        `{"clusterName":"default","selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"providerConfig":{"valueRef":{"name":"x"}}}}}`,
	"MachineDeployment": `{"clusterName":"default","selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"providerConfig":{"valueRef":{"name":"x"}}}}}`,
	"MachineFleet":      `{"clusterSelector":{"matchLabels":{"no":"where"}},"template":{"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"providerConfig":{"valueRef":{"name":"x"}}}}}}}`,
	"LoadTest":          `{"clusterSelector":{},"load":{"steps":[{"name":"w","phases":[{"action":"Wait","duration":"1s"}]}]}}`,
	"LoadTestRun":       `{"steps":[{"name":"w","phases":[{"action":"Wait","duration":"1s"}]}]}`,
	"NodeDisruption":    `{"clusterSelector":{},"faults":[{"type":"NotReady"}],"timing":{"duration":"1m"}}`,
	"NodeDisruptionRun": `{"faults":[{"type":"NotReady"}],"timing":{"duration":"1m"}}`,
}

// wrongSpecs are what an earlier schema, or none, may have let in. The types of fields have never changed, and a rule about a duration
// fails for a text that is not one: such objects are left out here.
var wrongSpecs = map[string]any{
	"null": nil, "empty": map[string]any{},
	"inner": map[string]any{"clusterName": "default", "template": map[string]any{}, "selector": map[string]any{}, "timing": map[string]any{}, "steps": []any{}},
	"starts-late": map[string]any{
		"clusterSelector": map[string]any{}, "faults": []any{map[string]any{"type": "NotReady"}}, "timing": map[string]any{"startAfter": "721h", "duration": "1m"},
	},
	"out-of-bounds": map[string]any{
		"clusterName": "default", "replicas": int64(1_000_000_000), "minReadySeconds": int64(-5), "prepareTimeout": "999h", "timeout": "999h", "namespaces": int64(-1),
		"versions": map[string]any{"kubelet": "x\n"}, "faults": []any{}, "steps": []any{}, "schedule": "x", "wide": strings.Repeat("x", 20_000),
		"timing": map[string]any{"duration": "9999h", "jitter": "99999h"}, "taints": []any{map[string]any{"key": "", "effect": ""}},
	},
}

// A finalizer has to come off whatever the schema thinks of the rest by now: else neither the object nor its namespace ever goes. And what
// is wrong can be put right.
// Claim: Objects of older schemas can be repaired or deleted. Broken: rules that ask for fields without `has` refuse the finalizer.
// Edge case: Objects without spec kept finalizers.
func TestObjectsOfAnEarlierSchemaCanGoAndBeRepaired(t *testing.T) {
	g, c := NewWithT(t), testenv.Server().Client
	var objects []*unstructured.Unstructured
	var definitions []string
	for kind := range repairs {
		lower := strings.ToLower(kind)
		definitions = append(definitions, map[bool]string{true: lower + "es", false: lower + "s"}[kind == "MachineClass"]+".hollowfleet.io")
		objects = append(objects, ofEarlierSchema(kind, "without-a-spec", nil, false))
		for name, spec := range wrongSpecs {
			objects = append(objects, ofEarlierSchema(kind, "spec-"+name, spec, true))
		}
	}
	next := 0
	g.Expect(testenv.Server().Loosely(t.Context(), func(ctx context.Context) error {
		for ; next < len(objects); next++ {
			if err := client.IgnoreAlreadyExists(c.Create(ctx, objects[next].DeepCopy())); err != nil {
				return fmt.Errorf("%d of %d objects are there: %w", next, len(objects), err)
			}
		}
		return nil
	}, definitions...)).To(Succeed())
	applyPolicies(t, "machines", "loadtests", "disruptions", "agents", "providerid", "providerconfig", "overrides")
	for kind := range repairs {
		g.Eventually(func() string {
			err := c.Create(t.Context(), ofEarlierSchema(kind, "new-without-a-spec", nil, false), client.DryRunAll)
			if err == nil {
				return ""
			}
			return err.Error()
		}).WithTimeout(time.Minute).Should(And(ContainSubstring("spec"), ContainSubstring("write one, or delete the object")), "a new %s without a spec", kind)
	}
	agent := rest.CopyConfig(testenv.Server().Config)
	agent.Impersonate = rest.ImpersonationConfig{UserName: v1alpha1.AgentUserPrefix + namespace, Groups: []string{v1alpha1.AgentGroupPrefix + namespace, "system:masters"}}
	asAgent, err := client.New(agent, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		t.Run(object.GetKind()+" "+object.GetName(), func(t *testing.T) { repairAndRelease(t, asAgent, object) })
	}
}

func repairAndRelease(t *testing.T, asAgent client.Client, object *unstructured.Unstructured) {
	g, c, kind := NewWithT(t), testenv.Server().Client, object.GetKind()
	patch := func(c client.Client, kind types.PatchType, text string, options ...client.PatchOption) error {
		return c.Patch(t.Context(), object.DeepCopy(), client.RawPatch(kind, []byte(text)), options...)
	}
	whole := `[{"op":"add","path":"/spec","value":` + repairs[kind] + `}]`
	repair := func() error { return patch(c, types.JSONPatchType, whole, client.DryRunAll) }
	switch _, isMap := object.Object["spec"].(map[string]any); {
	case isMap && (strings.HasPrefix(kind, "LoadTest") || strings.HasPrefix(kind, "NodeDisruption")):
		g.Eventually(repair).WithTimeout(time.Minute).Should(MatchError(ContainSubstring("delete the ")), "its repair, once the policy counts")
	case object.GetName() == "spec-inner" && (kind == "MachineSet" || kind == "MachineDeployment"):
		g.Eventually(repair).WithTimeout(time.Minute).Should(MatchError(ContainSubstring("spec.selector cannot be changed: create another object")), "its repair")
	default:
		g.Expect(repair()).To(Succeed(), "its repair")
	}
	g.Expect(patch(c, types.MergePatchType, `{"metadata":{"labels":{"seen":"x"}}}`)).To(Succeed(), "a label")
	if object.GetName() == "spec-starts-late" && kind == "NodeDisruption" {
		g.Expect(patch(c, types.MergePatchType, `{"spec":{"paused":true}}`)).To(Succeed(), "what is right in it can be changed")
	}
	if own := map[string]string{"Machine": v1alpha1.MachineFinalizer, "LoadTestRun": v1alpha1.LoadTestRunFinalizer}[kind]; own != "" {
		g.Expect(patch(asAgent, types.MergePatchType, `{"metadata":{"finalizers":["`+held+`","`+own+`"]}}`)).To(Succeed(), "the agent's finalizer")
		g.Expect(patch(asAgent, types.MergePatchType, `{"metadata":{"finalizers":["`+held+`"]}}`)).To(Succeed(), "without the agent's finalizer")
		g.Expect(asAgent.Status().Patch(t.Context(), object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`)))).To(Succeed(), "its status")
	}
	g.Expect(c.Delete(t.Context(), object.DeepCopy())).To(Succeed())
	g.Expect(patch(c, types.MergePatchType, `{"metadata":{"finalizers":null}}`)).To(Succeed(), "its last finalizer")
	g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(object), object.DeepCopy())).To(MatchError(ContainSubstring("not found")))
}
