package admission_test

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// The API server accepts as a duration what Go does not decode, and one such object made every list fail.
// Edge case: Durations that Go cannot decode were accepted.
func TestDurationsThatGoDoesNotDecodeAreRefused(t *testing.T) {
	for _, duration := range []string{"2d", "1 week", "5 minutes", "", "1h30", "99999h", "-1s", strings.Repeat("1s", 20)} {
		for _, object := range []client.Object{machine(), set(), deployment(), class()} {
			for _, timeout := range []string{"creation", "health", "drain"} {
				content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				raw := &unstructured.Unstructured{Object: content}
				kind, path := "", []string{"spec", "timeouts", timeout}
				switch object.(type) {
				case *v1alpha1.Machine:
					kind = "Machine"
				case *v1alpha1.MachineSet:
					kind, path = "MachineSet", []string{"spec", "template", "spec", "timeouts", timeout}
				case *v1alpha1.MachineDeployment:
					kind, path = "MachineDeployment", []string{"spec", "template", "spec", "timeouts", timeout}
				case *v1alpha1.MachineClass:
					kind = "MachineClass"
				}
				raw.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
				NewWithT(t).Expect(unstructured.SetNestedField(raw.Object, duration, path...)).To(Succeed())
				err = testenv.Server().Client.Create(t.Context(), raw)
				NewWithT(t).Expect(err).To(MatchError(ContainSubstring(strings.Join(path, "."))), "%s of a %s: %s", timeout, kind, duration)
				if len(duration) <= 32 {
					NewWithT(t).Expect(err).To(MatchError(ContainSubstring("such as 90s, 20m or 1h30m")))
				}
			}
		}
	}
}

// applyMachinesPolicy leaves other policies to the tests of these.
func applyMachinesPolicy(t *testing.T, c client.Client) {
	t.Helper()
	const file = "admission/machines.yaml"
	text, err := config.Admission.ReadFile(file)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(config.Apply(t.Context(), c, fstest.MapFS{file: {Data: text}}, "admission")).To(Succeed())
}

func body(object client.Object) *v1alpha1.MachineTemplateBody {
	switch typed := object.(type) {
	case *v1alpha1.MachineSet:
		return &typed.Spec.Template.Spec
	case *v1alpha1.MachineDeployment:
		return &typed.Spec.Template.Spec
	}
	return &object.(*v1alpha1.Machine).Spec.MachineTemplateBody
}

func taint(key, value string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

// Edge case: A template's hostname label, or invalid labels, reached Nodes.
func TestWhatNoNodeCanHaveIsRefused(t *testing.T) {
	g, c := NewWithT(t), testenv.Server().Client
	old := client.Object(machine())
	body(old).NodeMetadata.Labels = map[string]string{"kubernetes.io/hostname": "x"}
	g.Expect(c.Create(t.Context(), old)).To(Succeed(), "before there is a policy")
	applyMachinesPolicy(t, c)
	g.Eventually(func() error {
		elsewhere := machine()
		elsewhere.Spec.ClusterName = "elsewhere"
		return c.Create(t.Context(), elsewhere, client.DryRunAll)
	}).WithTimeout(time.Minute).Should(MatchError(ContainSubstring(`create the object in namespace "elsewhere"`)), "the API server reads the policy")

	for name, test := range map[string]struct {
		change        func(*v1alpha1.MachineTemplateBody)
		field, remedy string
	}{
		"hostname": {func(b *v1alpha1.MachineTemplateBody) {
			b.NodeMetadata.Labels = map[string]string{"kubernetes.io/hostname": "x"}
		},
			"spec.metadata.labels: kubernetes.io/hostname is reserved", "remove it"},
		"a restricted label": {func(b *v1alpha1.MachineTemplateBody) {
			b.NodeMetadata.Labels = map[string]string{"node-restriction.kubernetes.io/x": "x"}
		}, "spec.metadata.labels: node-restriction.kubernetes.io/x is reserved", "remove it"},
		"the agent's own label": {func(b *v1alpha1.MachineTemplateBody) {
			b.NodeMetadata.Labels = map[string]string{"hollowfleet.io/hollow": "no"}
		},
			"spec.metadata.labels: hollowfleet.io/hollow is reserved", "remove it"},
		"the agent's own annotation": {func(b *v1alpha1.MachineTemplateBody) {
			b.NodeMetadata.Annotations = map[string]string{"hollowfleet.io/machine": "x"}
		}, "spec.metadata.annotations: hollowfleet.io/machine is reserved", "remove it"},
		"a unicode label": {func(b *v1alpha1.MachineTemplateBody) { b.NodeMetadata.Labels = map[string]string{"größe": "x"} },
			`spec.metadata.labels: no valid key: "größe"`, "63 letters"},
		"a unicode value": {func(b *v1alpha1.MachineTemplateBody) { b.NodeMetadata.Labels = map[string]string{"size": "groß"} },
			"spec.metadata.labels: no label value: that of size", "63 letters"},
		"an annotation key with a space": {func(b *v1alpha1.MachineTemplateBody) { b.NodeMetadata.Annotations = map[string]string{"my note": "x"} },
			`spec.metadata.annotations: no valid key: "my note"`, "63 letters"},
		"a taint without effect": {func(b *v1alpha1.MachineTemplateBody) { b.Taints = []corev1.Taint{taint("a", "", "Never")} },
			`spec.taints: no valid taint: that of key "a"`, "NoSchedule, PreferNoSchedule or NoExecute"},
		"a taint of a bad key": {func(b *v1alpha1.MachineTemplateBody) { b.Taints = []corev1.Taint{taint("a b", "", "NoSchedule")} },
			`spec.taints: no valid taint: that of key "a b"`, "those of a label"},
		"a taint twice": {func(b *v1alpha1.MachineTemplateBody) {
			b.Taints = []corev1.Taint{taint("a", "1", "NoSchedule"), taint("a", "2", "NoSchedule")}
		}, "spec.taints: two taints have the same key and effect", "remove one"},
	} {
		for kind, object := range map[string]client.Object{"machine": machine(), "set": set(), "deployment": deployment()} {
			t.Run(name+", "+kind, func(t *testing.T) {
				g := NewWithT(t)
				test.change(body(object))
				field := test.field
				if kind != "machine" {
					field = "spec.template." + field
				}
				g.Expect(c.Create(t.Context(), object)).To(MatchError(And(ContainSubstring(field), ContainSubstring(test.remedy))))
			})
		}
	}

	old.SetLabels(map[string]string{"another": "change"})
	g.Expect(c.Update(t.Context(), old)).To(Succeed(), "an older object may be changed otherwise")
	many := deployment()
	for i := range 64 {
		body(many).Taints = append(body(many).Taints, taint(strings.Repeat("a", 40)+string(rune('a'+i/8))+string(rune('a'+i%8)), "x", "NoSchedule"))
	}
	body(many).NodeMetadata.Labels = map[string]string{"example.com/a": "b", "topology.kubernetes.io/zone": "z", "node.kubernetes.io/instance-type": "t"}
	g.Expect(c.Create(t.Context(), many)).To(Succeed(), "all that a Node can have")
}

// Edge case: Reserved keys made creation loops.
func TestKeysOfTheHubAreRefusedInTemplates(t *testing.T) {
	g, c := NewWithT(t), testenv.Server().Client
	applyMachinesPolicy(t, c)
	for name, test := range map[string]struct {
		labels, annotations map[string]string
		field               string
	}{
		"the selector of the hub's own sets": {map[string]string{"hollowfleet.io/machine-set-name": "x"}, nil, "metadata.labels: hollowfleet.io/machine-set-name"},
		"the cluster's name":                 {map[string]string{"app": "x", "hollowfleet.io/cluster-name": "x"}, nil, "metadata.labels: hollowfleet.io/cluster-name"},
		"the keys of the template":           {labels(), map[string]string{"hollowfleet.io/template-keys": "x"}, "metadata.annotations: hollowfleet.io/template-keys"},
		"a mark for deletion":                {labels(), map[string]string{"hollowfleet.io/delete-machine": ""}, "metadata.annotations: hollowfleet.io/delete-machine"},
		"a value that is none":               {map[string]string{"app": "not valid!"}, nil, "metadata.labels: no label value: that of app"},
		"a key that is none":                 {labels(), map[string]string{"my note": "x"}, `metadata.annotations: no valid key: "my note"`},
	} {
		t.Run(name, func(t *testing.T) {
			refused := set()
			refused.Spec.Selector.MatchLabels, refused.Spec.Template.Metadata = test.labels, v1alpha1.TemplateMetadata{Labels: test.labels, Annotations: test.annotations}
			NewWithT(t).Eventually(func() error { return c.Create(t.Context(), refused, client.DryRunAll) }).WithTimeout(time.Minute).
				Should(MatchError(ContainSubstring("spec.template." + test.field)))
		})
	}
	allowed := set()
	allowed.Spec.Template.Metadata.Annotations = map[string]string{
		v1alpha1.AllowKubeletVersionSkewAnnotation: "true", v1alpha1.DeletionPriorityAnnotation: "1", v1alpha1.PreDrainHookPrefix + "x": "y",
	}
	g.Expect(c.Create(t.Context(), allowed)).To(Succeed(), "what users write")
}
