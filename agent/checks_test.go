package agent_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// With the rights that an agent has in production, it reads all that its checks need.
func TestAnAgentReportsWhatItsChecksFind(t *testing.T) {
	const kind = "example.com/FrontendAvailable"
	f := start(t, "checked", nil)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: hostNamespace, Name: "checked"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1000")}
	f.Expect(f.admin.Create(t.Context(), quota)).To(Succeed())
	t.Cleanup(func() { f.Expect(f.admin.Delete(context.Background(), quota)).To(Succeed()) })
	cluster := &v1alpha1.Cluster{}
	f.accept()
	f.Eventually(func() error {
		f.Expect(f.admin.Get(t.Context(), client.ObjectKey{Name: f.cluster}, cluster)).To(Succeed())
		cluster.Spec.HealthChecks = []v1alpha1.ClusterHealthCheck{{Type: kind, Deployment: v1alpha1.DeploymentReference{Namespace: "default", Name: "none"}}}
		return f.admin.Update(t.Context(), cluster)
	}).WithTimeout(agenttest.Wait).Should(Succeed())
	f.Eventually(func(g Gomega) {
		g.Expect(f.admin.Get(t.Context(), client.ObjectKey{Name: f.cluster}, cluster)).To(Succeed())
		g.Expect(meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterDisruptionAllowedCondition)).To(BeTrue(), "%+v", cluster.Status.Conditions)
		check := meta.FindStatusCondition(cluster.Status.Conditions, kind)
		g.Expect(check).To(And(Not(BeNil()), HaveField("Reason", v1alpha1.ReasonDeploymentNotFound)))
		g.Expect(cluster.Status.PodQuota).To(And(Not(BeNil()), HaveField("Name", "checked")))
	}).WithTimeout(agenttest.Wait).Should(Succeed())
}
