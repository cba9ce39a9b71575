package autoscaler

import (
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const prefix = "capacity.cluster-autoscaler.kubernetes.io/"

// canScaleFromZero: CanScaleFromZero (clusterapi_unstructured.go).
func canScaleFromZero(object *unstructured.Unstructured) bool {
	for _, name := range []string{"cpu", "memory"} {
		quantity, err := resource.ParseQuantity(object.GetAnnotations()[prefix+name])
		if err != nil || quantity.IsZero() {
			return false
		}
	}
	return true
}

// templateNode: TemplateNodeInfo (clusterapi_nodegroup.go), InstanceCapacity, Labels and Taints
// (clusterapi_unstructured.go), parse… and getManagedNodeLabelsFromLabels (clusterapi_utils.go). Annotations win over
// the template.
func (g nodeGroup) templateNode() corev1.Node {
	GinkgoHelper()
	_, found, err := unstructured.NestedStringMap(g.Object, "spec", "template", "spec", "infrastructureRef")
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(BeFalse(), "the provider would list and watch what it refers to, and its role does not let it")
	annotations := g.GetAnnotations()
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}, Status: corev1.NodeStatus{Capacity: corev1.ResourceList{}}}
	for name, resourceName := range map[string]corev1.ResourceName{
		"cpu": corev1.ResourceCPU, "memory": corev1.ResourceMemory, "ephemeral-disk": corev1.ResourceEphemeralStorage,
	} {
		quantity, err := resource.ParseQuantity(annotations[prefix+name])
		Expect(err).NotTo(HaveOccurred(), name)
		node.Status.Capacity[resourceName] = quantity
	}
	for name, resourceName := range map[string]corev1.ResourceName{
		"maxPods": corev1.ResourcePods, "gpu-count": corev1.ResourceName(annotations[prefix+"gpu-type"]),
	} {
		number, err := strconv.ParseInt(annotations[prefix+name], 10, 0)
		Expect(err).NotTo(HaveOccurred(), name)
		node.Status.Capacity[resourceName] = *resource.NewQuantity(number, resource.DecimalSI)
	}
	g.readTemplate(&node)
	for label := range strings.SplitSeq(annotations[prefix+"labels"], ",") {
		key, value, found := strings.Cut(label, "=")
		Expect(found).To(BeTrue(), label)
		node.Labels[key] = value
	}
	for text := range strings.SplitSeq(annotations[prefix+"taints"], ",") {
		pair, effect, found := strings.Cut(text, ":")
		Expect(found).To(BeTrue(), text)
		key, value, _ := strings.Cut(pair, "=")
		taint := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
		node.Spec.Taints = append(slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }), taint)
	}
	return node
}

// readTemplate takes the taints of the template, and those labels that are of a domain of Cluster API's.
func (g nodeGroup) readTemplate(node *corev1.Node) {
	GinkgoHelper()
	fromTemplate, _, err := unstructured.NestedStringMap(g.Object, "spec", "template", "spec", "metadata", "labels")
	Expect(err).NotTo(HaveOccurred())
	for key, value := range fromTemplate {
		domain, _, _ := strings.Cut(key, "/")
		for _, managed := range []string{"node-role.kubernetes.io", "node-restriction.kubernetes.io", "node.cluster.x-k8s.io"} {
			if domain == managed || managed != "node-role.kubernetes.io" && strings.HasSuffix(domain, "."+managed) {
				node.Labels[key] = value
			}
		}
	}
	taints, _, err := unstructured.NestedSlice(g.Object, "spec", "template", "spec", "taints")
	Expect(err).NotTo(HaveOccurred())
	for _, raw := range taints {
		var taint corev1.Taint
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(raw.(map[string]any), &taint)).To(Succeed())
		node.Spec.Taints = append(node.Spec.Taints, taint)
	}
}
