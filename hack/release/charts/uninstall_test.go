package main

import (
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// The check runs before anything of the release is deleted, with the hub's rights, and its log is kept where it fails.
func TestClustersThatAreLeftHoldAnUninstall(t *testing.T) {
	g := NewWithT(t)
	job := find[*batchv1.Job](t, hubChart.objects(t, ""), "hollowfleet-clusters-are-left")
	g.Expect(job.Annotations).To(And(HaveKeyWithValue("helm.sh/hook", "pre-delete"), HaveKeyWithValue("helm.sh/hook-delete-policy", "before-hook-creation,hook-succeeded"),
		HaveKeyWithValue("helm.sh/hook-output-log-policy", "hook-failed")))
	g.Expect(job.Spec.BackoffLimit).To(HaveValue(BeZero()), "its one answer holds")
	pod := job.Spec.Template.Spec
	g.Expect(pod.ServiceAccountName).To(Equal("hollowfleet-hub"))
	g.Expect(pod.Containers).To(HaveLen(1))
	g.Expect(pod.Containers[0].Args).To(Equal([]string{"check-uninstall"}))
	g.Expect(pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions).To(ConsistOf(
		corev1.NodeSelectorRequirement{Key: "hollowfleet.io/hollow", Operator: corev1.NodeSelectorOpDoesNotExist}), "a hollow Node only seems to run it")
	hub := workloadOf(t, hubChart.objects(t, ""))
	g.Expect(pod.Containers[0].Image).To(Equal(hub.pod.Spec.Containers[0].Image))
	g.Expect(selects(hub.selector, job.Spec.Template.Labels)).To(BeFalse(), "the check's pod is not one of the hub's")
	g.Expect(hubChart.objects(t, "uninstallCheck.enabled=false")).NotTo(ContainElement(BeAssignableToTypeOf(&batchv1.Job{})))
}
