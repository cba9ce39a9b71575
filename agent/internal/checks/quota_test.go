package checks

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestTheQuotaThatLeavesTheLeastRoomIsReported(t *testing.T) {
	quota := func(name string, counted corev1.ResourceName, hard, used string, scopes ...corev1.ResourceQuotaScope) corev1.ResourceQuota {
		q := corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "host", Name: name}, Spec: corev1.ResourceQuotaSpec{Scopes: scopes}}
		q.Status.Hard = corev1.ResourceList{counted: resource.MustParse(hard)}
		q.Status.Used = corev1.ResourceList{counted: resource.MustParse(used)}
		return q
	}
	for name, test := range map[string]struct {
		quotas []corev1.ResourceQuota
		want   *v1alpha1.PodQuota
	}{
		"none":               {nil, nil},
		"of something else":  {[]corev1.ResourceQuota{quota("a", "services", "1", "1")}, nil},
		"of other pods":      {[]corev1.ResourceQuota{quota("a", "pods", "1", "1", corev1.ResourceQuotaScopeBestEffort)}, nil},
		"the least":          {[]corev1.ResourceQuota{quota("a", "pods", "10", "3"), quota("b", "count/pods", "5", "1"), quota("c", "pods", "9", "0")}, &v1alpha1.PodQuota{Namespace: "host", Name: "b", Remaining: 4}},
		"more used than may": {[]corev1.ResourceQuota{quota("a", "pods", "2", "7")}, &v1alpha1.PodQuota{Namespace: "host", Name: "a"}},
		"beyond 32 bits":     {[]corev1.ResourceQuota{quota("a", "pods", "9e18", "0")}, &v1alpha1.PodQuota{Namespace: "host", Name: "a", Remaining: 1<<31 - 1}},
	} {
		NewWithT(t).Expect(leastRoom(test.quotas)).To(Equal(test.want), name)
	}
	b := newEnv(t)
	b.Read(t.Context())
	b.Expect(b.Result()).To(And(HaveField("Known", true), HaveField("PodQuota", BeNil())))
	live := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "small"}}
	live.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}
	b.create(live)
	b.Eventually(func() *v1alpha1.PodQuota { b.Read(t.Context()); return b.Result().PodQuota }).WithTimeout(agenttest.Wait).
		Should(Equal(&v1alpha1.PodQuota{Namespace: b.namespace, Name: "small", Remaining: 3}), "the quota controller")
}
