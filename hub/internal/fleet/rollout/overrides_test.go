package rollout

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestAnOverrideIsMerged(t *testing.T) {
	base := &v1alpha1.MachineDeploymentTemplate{Spec: v1alpha1.MachineDeploymentTemplateSpec{
		Selector:        v1alpha1.MachineSelector{MatchLabels: map[string]string{"app": "x"}},
		MinReadySeconds: 7,
		Template: v1alpha1.MachineTemplate{
			Metadata: v1alpha1.TemplateMetadata{Labels: map[string]string{"app": "x", "tier": "1"}},
			Spec: v1alpha1.MachineTemplateBody{
				Versions: v1alpha1.MachineVersions{Kubelet: "v1.36.2"},
				Taints:   []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}, {Key: "b", Effect: corev1.TaintEffectNoSchedule}},
				Roles:    []string{"one", "two"},
				ProviderConfig: v1alpha1.ProviderConfig{Provider: "hollow", Value: yamlText(t,
					`{apiVersion: v1, kind: X, capacity: {cpu: 1, memory: 1Gi}, list: [{name: a}, {name: b}]}`)},
			},
		},
	}}
	for name, c := range map[string]struct {
		override string
		want     func(*v1alpha1.MachineDeploymentTemplate)
	}{
		"nothing": {"{}", func(*v1alpha1.MachineDeploymentTemplate) {}},
		"a field": {kubelet138Text, func(m *v1alpha1.MachineDeploymentTemplate) { m.Spec.Template.Spec.Versions.Kubelet = "v1.38.0" }},
		"labels are merged, and null removes one": {`{spec: {template: {metadata: {labels: {tier: null, zone: b}}}}}`, func(m *v1alpha1.MachineDeploymentTemplate) {
			m.Spec.Template.Metadata.Labels = map[string]string{"app": "x", "zone": "b"}
		}},
		"lists are replaced": {`{spec: {template: {spec: {taints: [{key: c, effect: NoExecute}], roles: [three]}}}}`, func(m *v1alpha1.MachineDeploymentTemplate) {
			m.Spec.Template.Spec.Taints, m.Spec.Template.Spec.Roles = []corev1.Taint{{Key: "c", Effect: corev1.TaintEffectNoExecute}}, []string{"three"}
		}},
		"the provider's own configuration is merged, its lists are replaced": {
			`{spec: {template: {spec: {providerConfig: {value: {capacity: {cpu: 2}, list: [{name: c}]}}}}}}`, func(m *v1alpha1.MachineDeploymentTemplate) {
				m.Spec.Template.Spec.ProviderConfig.Value = yamlText(t, `{apiVersion: v1, kind: X, capacity: {cpu: 2, memory: 1Gi}, list: [{name: c}]}`)
			}},
		"a map is replaced as a whole": {`{spec: {template: {spec: {providerConfig: {$patch: replace, valueRef: {name: large}}}}}}`, func(m *v1alpha1.MachineDeploymentTemplate) {
			m.Spec.Template.Spec.ProviderConfig = v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "large"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := base.DeepCopy()
			c.want(want)
			got, err := mergeTemplate(base, yamlText(t, c.override))
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			text, err := yaml.Marshal(got)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			wanted, err := yaml.Marshal(want)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(string(text)).To(MatchYAML(wanted))
		})
	}
}

// A fleet that has no template in an override keeps its revision when the hub is upgraded, or all clusters would be started over.
func TestTheRevisionWithoutOverridesIsThatOfTheTemplate(t *testing.T) {
	g := NewWithT(t)
	fleet := largeScope(t, 1).Fleet
	want, err := hashOf(&fleet.Spec.Template)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(Revision(fleet)).To(Equal(want))
	fleet.Spec.Overrides = []v1alpha1.MachineFleetOverride{{Name: "a", Replicas: new(int32(3))}}
	g.Expect(Revision(fleet)).To(Equal(want), "replicas are no part of it")
	overrideWith(t, "b", kubelet138Text)(fleet)
	other, err := Revision(fleet)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(other).NotTo(Equal(want))
	fleet.Spec.Overrides[1].Replicas = new(int32(9))
	g.Expect(Revision(fleet)).To(Equal(other))
	fleet.Spec.Overrides[1].ClusterSelector.MatchLabels["b"] = "no"
	g.Expect(Revision(fleet)).NotTo(Equal(other))
}

// Overrides that only change their places are the revision that they were, or the whole fleet would be started over.
// Claim: Reordered overrides are not a new revision. Broken: they are kept in the order of the spec.
func TestTheOrderOfOverridesIsNoPartOfTheRevision(t *testing.T) {
	g := NewWithT(t)
	fleet := largeScope(t, 1).Fleet
	overrideWith(t, "b", kubelet138Text)(fleet)
	overrideWith(t, "c", `{spec: {minReadySeconds: 9}}`)(fleet)
	overrideWith(t, "a", `{spec: {minReadySeconds: 7}}`)(fleet)
	given := slices.Clone(fleet.Spec.Overrides)
	names := func(overrides []v1alpha1.MachineFleetOverride) (all []string) {
		for _, override := range overrides {
			all = append(all, override.Name)
		}
		return all
	}
	want, err := Revision(fleet)
	g.Expect(err).NotTo(HaveOccurred())
	for range 2 {
		g.Expect(names(keptOf(fleet).Overrides)).To(Equal([]string{"a", "b", "c"}), "they are kept by name")
		g.Expect(Revision(fleet)).To(Equal(want))
		g.Expect(fleet.Spec.Overrides).To(Equal(given), "the fleet has them in the order in which they hold")
		slices.Reverse(fleet.Spec.Overrides)
		slices.Reverse(given)
	}
}

func yamlText(t testing.TB, text string) *runtime.RawExtension {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &runtime.RawExtension{Raw: content}
}

const kubelet138Text = `{spec: {template: {spec: {versions: {kubelet: v1.38.0}}}}}`

// overrideWith gives the clusters with a label a template of their own.
func overrideWith(t testing.TB, name, template string) func(*v1alpha1.MachineFleet) {
	return func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Overrides = append(fleet.Spec.Overrides, v1alpha1.MachineFleetOverride{
			Name: name, ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{name: "yes"}}, Template: yamlText(t, template),
		})
	}
}
