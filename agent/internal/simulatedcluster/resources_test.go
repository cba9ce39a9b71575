package simulatedcluster

import (
	"testing"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Claim: Resources of a control plane do not wait for its version. Broken: resources not compared with those asked for before; held back with the version.
func TestOtherResourcesDoNotWaitForAVersion(t *testing.T) {
	b, one := newUpgradeEnv(t)
	b.Expect(b.driver.Desired(one.Name).Resources).To(BeZero())
	b.runs(one, clusterdriver.Running, "v1.34", "v1.34", "v1.34")
	b.patch(one, `{"spec":{"resources":{"requests":{"memory":"400Mi"}}}}`)
	b.created(one, metav1.ConditionTrue)
	b.round(2)
	b.expectMemory(one, "400Mi")
	b.expectSaid(one, metav1.ConditionTrue, v1alpha1.ReasonReady, "")

	b.runs(one, clusterdriver.Failed, "v1.34", "v1.34", "")
	b.raise(one, `"v1.35"`)
	b.patch(one, `{"spec":{"resources":{"requests":{"memory":"800Mi"}}}}`)
	b.created(one, metav1.ConditionTrue)
	b.expectAsked(one, "v1.34", "it is not healthy")
	b.expectMemory(one, "800Mi")
	asked := len(b.driver.Calls())
	b.round(2)
	b.Expect(b.driver.Calls()).To(HaveLen(asked), "it was asked for that already")
	b.restart(b.driver)
	b.expectAsked(one, "v1.34", "it is not healthy")

	b.runs(one, clusterdriver.Running, "v1.34", "v1.34", "v1.34")
	b.patch(one, `{"spec":{"resources":null}}`)
	b.created(one, metav1.ConditionTrue)
	b.expectAsked(one, "v1.35", "all of it is healthy")
	b.Expect(b.driver.Desired(one.Name).Resources).To(BeZero(), "what is left out is the driver's default again")
}

// A request that the host has no room for is refused with its field.
func TestMoreMemoryThanTheHostHasIsTold(t *testing.T) {
	b := newEnv(t)
	b.driver.BoundMemory(resource.MustParse("1Gi"))
	one := b.newOne(func(one *v1alpha1.SimulatedCluster) {
		one.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}
	})
	b.round(1)
	b.decide(one, certificatesv1.CertificateApproved)
	b.round(1)
	b.expectSaid(one, metav1.ConditionFalse, v1alpha1.ReasonInsufficientResources, "The host has no room for it: spec.resources.requests.memory: want at most 1Gi")
	b.patch(one, `{"spec":{"resources":{"requests":{"memory":"1Gi"}}}}`)
	b.created(one, metav1.ConditionTrue)
	b.round(3)
	b.expectMemory(one, "1Gi")
}

func (b *env) expectMemory(one *v1alpha1.SimulatedCluster, want string) {
	b.T.Helper()
	requests := b.driver.Desired(one.Name).Resources.Requests
	b.Expect(requests.Memory().String()).To(Equal(want))
}
