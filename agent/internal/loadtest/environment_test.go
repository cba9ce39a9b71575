package loadtest

import (
	"context"
	"runtime"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Claim: Reports name their environment; unlike tests are not compared. Broken: not broken alone. Also: hub/cli/loadtest TestTestsThatDifferAreNotCompared, TestNothingIsJudgedOfTestsThatDiffer; hub/cli TestAReportIsWrittenAndCompared.
func TestARunSaysWhatItWasMadeOn(t *testing.T) {
	b := newEnv(t)
	for name, version := range map[string]string{"a": "v1.36.2", "b": "v1.37.1", "c": "v1.37.1"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.namespace + "-" + name, Labels: map[string]string{v1alpha1.HollowNodeLabel: "true"}}}
		b.ExpectApplied(node)
		t.Cleanup(func() { _ = b.Client.Delete(context.Background(), node) })
		before := client.MergeFrom(node.DeepCopy())
		node.Status.NodeInfo.KubeletVersion = version
		b.Expect(b.Client.Status().Patch(t.Context(), node, before)).To(Succeed())
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name, Labels: map[string]string{v1alpha1.MachineNameLabel: name}}}
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		if name != "a" {
			pod.Annotations = map[string]string{hollownode.ProfileAnnotation: "Realistic"}
		}
		b.ExpectApplied(pod)
	}
	kwok := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.namespace + "-kwok", Labels: map[string]string{v1alpha1.HollowNodeLabel: v1alpha1.KwokNodeLabelValue}}}
	b.ExpectApplied(kwok)
	t.Cleanup(func() { _ = b.Client.Delete(context.Background(), kwok) })
	status := b.expectEnded(b.create("environment", configMap, nil, creates(1)))
	b.Expect(status.Notes).To(ContainElement(ContainSubstring("Nodes of provider kwok take no pods of load tests")))
	b.Expect(status.Environment).NotTo(BeNil())
	// Other tests of the package have Nodes too.
	b.Expect(status.Environment.KubeletVersions).To(ContainElement(And(HaveField("Value", "v1.37.1"), HaveField("Nodes", BeNumerically(">=", 2)))))
	b.Expect(status.Environment.KubeletVersions).To(ContainElement(HaveField("Value", "v1.36.2")))
	b.Expect(*status.Environment).To(And(HaveField("Nodes", BeNumerically(">=", 3)), HaveField("KubernetesVersion", HavePrefix("v1.")),
		HaveField("Processors", BeEquivalentTo(runtime.NumCPU())), HaveField("MemoryMiB", BeNumerically(">", 100)),
		HaveField("Profiles", HaveExactElements(v1alpha1.LoadNodeCount{Value: "Realistic", Nodes: 2}, v1alpha1.LoadNodeCount{Value: "Unknown", Nodes: 1}))))
}

func TestValuesAreCountedAndBounded(t *testing.T) {
	g := NewWithT(t)
	g.Expect(countValues(nil)).To(BeEmpty())
	g.Expect(countValues([]string{"b", "a", "b"})).To(HaveExactElements(v1alpha1.LoadNodeCount{Value: "b", Nodes: 2}, v1alpha1.LoadNodeCount{Value: "a", Nodes: 1}))
	var many []string
	for i := range 100 {
		many = append(many, string(rune('A'+i)))
	}
	g.Expect(countValues(many)).To(HaveLen(mostValues))
	g.Expect(fieldOf("processor : 0\nmodel name\t: Some: CPU @ 2GHz\nmodel name\t: other\n", "model name")).To(Equal("Some: CPU @ 2GHz"))
	g.Expect(fieldOf("MemTotal:  1024 kB\n", "MemTotal")).To(Equal("1024 kB"))
	g.Expect(fieldOf("", "x")).To(BeEmpty())
}
