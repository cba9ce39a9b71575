package inventory_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/internal/rehearsal/inventory"
)

// sample is a cluster with one of everything.
func sample() *inventory.Inventory {
	labels := map[string]string{"app": "shop"}
	one := intstr.FromInt32(1)
	return &inventory.Inventory{
		APIVersion: inventory.APIVersion, Kind: inventory.Kind, ControlPlane: "v1.36.2",
		Nodes: []inventory.Node{{
			Name: "node-a", Kubelet: "v1.35.1", Ready: true, Labels: map[string]string{corev1.LabelHostname: "node-a", "pool": "a"},
			Taints: []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}, Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
		}},
		Namespaces:      []inventory.Namespace{{Name: "shop", Labels: map[string]string{"team": "payments"}}},
		PriorityClasses: []inventory.PriorityClass{{Name: "gold", Value: 1000}},
		Workloads: []inventory.Workload{{
			Kind: inventory.Deployment, Namespace: "shop", Name: "web", Replicas: 2, Ready: 2, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Pod: inventory.Pod{
				Labels: map[string]string{"app": "shop", "tier": "web"}, PriorityClassName: "gold", Containers: []inventory.Container{{}},
				NodeSelector: map[string]string{corev1.LabelHostname: "node-a"},
				Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					TopologyKey: corev1.LabelHostname, Namespaces: []string{"shop", "kube-system"}, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}},
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "shop"}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpIn, Values: []string{"payments"}}}},
				}}}},
			},
		}},
		Budgets: []inventory.Budget{{Namespace: "shop", Name: "web", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}, MaxUnavailable: &one}},
	}
}

func encode(g Gomega, i *inventory.Inventory) string {
	content, err := i.Encode()
	g.Expect(err).NotTo(HaveOccurred())
	return string(content)
}

func TestAnInventoryIsReadAsItWasWritten(t *testing.T) {
	g := NewWithT(t)
	read, err := inventory.Decode([]byte(encode(g, sample())))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(encode(g, read)).To(Equal(encode(g, sample())))
}

// Claim: An inventory with what is not known is refused, and the field is named. Broken: unknown fields ignored; a selector that selects nothing accepted.
func TestABadInventoryIsRefusedWithItsField(t *testing.T) {
	for name, test := range map[string]struct {
		change func(string) string
		says   string
	}{
		"no YAML":             {func(string) string { return "{" }, "not YAML"},
		"another kind":        {func(s string) string { return strings.Replace(s, "kind: Inventory", "kind: Pod", 1) }, "want rehearsal.hollowfleet.io/v1, Inventory"},
		"an unknown field":    {func(s string) string { return s + "secrets: []\n" }, `unknown field "secrets"`},
		"one further in":      {func(s string) string { return strings.Replace(s, "kubelet:", "env: x\n  kubelet:", 1) }, `unknown field "nodes[0].env"`},
		"a field twice":       {func(s string) string { return s + "controlPlane: v1.36.2\n" }, "already set"},
		"a wrong type":        {func(s string) string { return strings.Replace(s, "replicas: 2", "replicas: many", 1) }, "replicas"},
		"no version":          {func(s string) string { return strings.Replace(s, "controlPlane: v1.36.2", "controlPlane: new", 1) }, "controlPlane"},
		"a kubelet's":         {func(s string) string { return strings.Replace(s, "v1.35.1", "old", 1) }, "nodes[0].kubelet"},
		"an unknown workload": {func(s string) string { return strings.Replace(s, "kind: Deployment", "kind: CloneSet", 1) }, `workloads[0].kind: Unsupported value: "CloneSet"`},
		"an unknown effect":   {func(s string) string { return strings.Replace(s, "effect: NoSchedule", "effect: Never", 1) }, "nodes[0].taints[0].effect"},
		"too many replicas":   {func(s string) string { return strings.Replace(s, "replicas: 2", "replicas: 2000000", 1) }, "workloads[0].replicas"},
		"negative room":       {func(s string) string { return strings.Replace(s, `cpu: "4"`, `cpu: "-4"`, 1) }, "nodes[0].allocatable[cpu]"},
		"two bounds": {func(s string) string {
			return strings.Replace(s, "maxUnavailable: 1", "maxUnavailable: 1\n  minAvailable: 1", 1)
		}, "set only one"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := inventory.Decode([]byte(test.change(encode(g, sample()))))
			g.Expect(err).To(MatchError(ContainSubstring(test.says)))
		})
	}
}

func TestSelectorsMustMatchTheirPods(t *testing.T) {
	g := NewWithT(t)
	other := sample()
	other.Workloads[0].Pod.Labels = map[string]string{"app": "other"}
	_, err := inventory.Decode([]byte(encode(g, other)))
	g.Expect(err).To(MatchError(ContainSubstring("workloads[0].selector")))
	twice := sample()
	twice.Nodes = append(twice.Nodes, twice.Nodes[0])
	_, err = inventory.Decode([]byte(encode(g, twice)))
	g.Expect(err).To(MatchError(ContainSubstring(`nodes[1].name: Duplicate value: "node-a"`)))
	empty := sample()
	empty.Nodes = nil
	_, err = inventory.Decode([]byte(encode(g, empty)))
	g.Expect(err).To(MatchError(ContainSubstring("nodes: Required")))
}

// Claim: Hashed names leave nothing of the names, and pods are selected as before. Broken: names of an affinity kept; values of selectors kept.
func TestHashedNamesSelectAsBefore(t *testing.T) {
	g := NewWithT(t)
	hashed := sample()
	hashed.HashNames([]byte("salt"))
	text := encode(g, hashed)
	for _, name := range []string{"shop", "node-a", "gold", "payments", ": web"} {
		g.Expect(text).NotTo(ContainSubstring(name))
	}
	g.Expect(text).To(And(ContainSubstring("kube-system"), ContainSubstring("pool: a"), ContainSubstring("namesHashed: true")))
	read, err := inventory.Decode([]byte(text))
	g.Expect(err).NotTo(HaveOccurred(), "names are still names, and the selector still matches")
	workload := &read.Workloads[0]
	g.Expect(workload.Pod.NodeSelector[corev1.LabelHostname]).To(Equal(read.Nodes[0].Labels[corev1.LabelHostname]))
	term := workload.Pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	g.Expect(term.Namespaces).To(ContainElement(workload.Namespace))
	g.Expect(term.NamespaceSelector.MatchLabels[corev1.LabelMetadataName]).To(Equal(workload.Namespace))
	g.Expect(term.NamespaceSelector.MatchExpressions[0].Values[0]).To(Equal(read.Namespaces[0].Labels["team"]))
	g.Expect(read.Budgets[0].Selector.MatchLabels["app"]).To(Equal(workload.Pod.Labels["app"]))
	other := sample()
	other.HashNames([]byte("another"))
	g.Expect(encode(g, other)).NotTo(Equal(text), "the salt is not kept")
}

func FuzzDecode(f *testing.F) {
	content, err := sample().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add([]byte("apiVersion: rehearsal.hollowfleet.io/v1\nkind: Inventory\nnodes: [{}]\nworkloads: [{pod: {}}]\npodDisruptionBudgets: [{}]"))
	f.Fuzz(func(t *testing.T, content []byte) {
		read, err := inventory.Decode(content)
		if err != nil {
			return
		}
		again, err := read.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := inventory.Decode(again); err != nil {
			t.Fatalf("what was read cannot be read again: %v\n%s", err, again)
		}
		read.HashNames([]byte("salt"))
	})
}
