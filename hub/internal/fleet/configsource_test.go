package fleet

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Claim: A fleet starts a kubelet configuration only where its content is. Broken: it is started where the ConfigMap is missing. Edge case: a content that only the history has.
func TestAKubeletConfigurationIsStartedWhereItsContentIs(t *testing.T) {
	f := newEnv(t, 2, inSteps(2, 0))
	f.settle()
	const content = "kind: KubeletConfiguration\n"
	hash := v1alpha1.ContentHash(content)
	write := func(i int, text string) *corev1.ConfigMap {
		configs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.clusters[i].Name, Name: v1alpha1.KubeletConfigMap}}
		configs.Data = map[string]string{"workers": text}
		f.ExpectApplied(configs)
		return configs
	}
	write(0, content)
	other := write(1, "something else")
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet = "v1.37.0"
		fleet.Spec.Template.Spec.Template.Spec.ConfigSource = &v1alpha1.ConfigSource{Key: "workers", SHA256: hash}
	})
	f.settle()
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2"))
	f.Expect(f.status().Failures).To(ConsistOf(And(HaveField("Cluster", f.clusters[1].Name), HaveField("Reason", v1alpha1.ReasonConfigSourceUnavailable),
		HaveField("Message", And(ContainSubstring("spec.template.spec.template.spec.configSource: key workers of ConfigMap "+f.clusters[1].Name), ContainSubstring(hash))))))
	f.Expect(f.logic.ofConfigMap(t.Context(), other)).NotTo(BeEmpty())

	// A revision of the MachineDeployment there has it.
	deployment := f.deployment(1)
	labels := map[string]string{"app": "x", v1alpha1.MachineDeploymentNameLabel: deployment.Name}
	kept := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: deployment.Namespace, Name: "kept", Labels: labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, v1alpha1.GroupVersion.WithKind("MachineDeployment"))},
	}}
	kept.Spec = v1alpha1.MachineSetSpec{ClusterName: deployment.Namespace, Replicas: new(int32(0)), Template: *deployment.Spec.Template.DeepCopy(), Selector: v1alpha1.MachineSelector{MatchLabels: map[string]string{"app": "x"}}}
	kept.Spec.Template.Spec.ConfigSource = &v1alpha1.ConfigSource{Key: "workers", Resolved: &v1alpha1.ResolvedConfigSource{Key: "workers", Content: content}}
	f.ExpectApplied(kept)
	f.settle()
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.37.0"))
}
