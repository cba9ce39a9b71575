package pods_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
)

func withQuota(hard map[corev1.ResourceName]string) func(*pods.Options) {
	return func(o *pods.Options) {
		o.Quota = corev1.ResourceList{}
		for name, quantity := range hard {
			o.Quota[name] = resource.MustParse(quantity)
		}
	}
}

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// Claim: What the quota has no room for is refused first, and what runs stays. Broken: the agent's part not counted; a pod that runs refused when the quota has become smaller.
func TestTheQuotaIsCheckedBeforeAnythingIsMade(t *testing.T) {
	for name, test := range map[string]struct {
		hard  map[corev1.ResourceName]string
		asked corev1.ResourceRequirements
		want  string
	}{
		"memory":          {map[corev1.ResourceName]string{"requests.memory": "1Gi"}, corev1.ResourceRequirements{Requests: list("1", "1Gi")}, "spec.resources.requests.memory: with its agent it takes 1088Mi, and the host's quota for the namespace of each simulated cluster has requests.memory=1Gi: ask for less"},
		"another name":    {map[corev1.ResourceName]string{"memory": "1Gi"}, corev1.ResourceRequirements{Requests: list("1", "1Gi")}, "has memory=1Gi"},
		"cpu":             {map[corev1.ResourceName]string{"requests.cpu": "1"}, corev1.ResourceRequirements{Requests: list("1", "1Gi")}, "spec.resources.requests.cpu"},
		"a limit":         {map[corev1.ResourceName]string{"limits.memory": "1Gi"}, corev1.ResourceRequirements{Limits: list("1", "2Gi")}, "spec.resources.limits.memory"},
		"by default, too": {map[corev1.ResourceName]string{"requests.memory": "300Mi"}, corev1.ResourceRequirements{}, "takes 384Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			g, driver, desired := NewWithT(t), newDriver(t, withQuota(test.hard)), newDesired(t)
			desired.Resources = test.asked
			expectRefusal(g, driver.Ensure(t.Context(), desired), clusterdriver.NoRoom, test.want)
			inventory, err := driver.List(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(inventory.Clusters).To(BeEmpty())
		})
	}
}

func planeOf(g *WithT, t *testing.T, desired clusterdriver.Desired) corev1.ResourceRequirements {
	t.Helper()
	set := &appsv1.StatefulSet{}
	g.Expect(admin().Get(t.Context(), client.ObjectKey{Namespace: rendering.NamespaceOf(desired.Name), Name: rendering.Name}, set)).To(Succeed())
	return set.Spec.Template.Spec.InitContainers[0].Resources
}

func expectList(g *WithT, got corev1.ResourceList, cpu, memory string) {
	g.THelper()
	g.Expect(got.Cpu().String() + " " + got.Memory().String()).To(Equal(cpu + " " + memory))
}

// The pod of a control plane has the resources asked for, and the default again when they are taken back.
func TestResourcesReachThePod(t *testing.T) {
	g, desired := NewWithT(t), newDesired(t)
	with := options(t)
	newWith := func(hard map[corev1.ResourceName]string) *pods.Driver {
		withQuota(hard)(&with)
		driver, err := pods.New(with)
		g.Expect(err).NotTo(HaveOccurred())
		return driver
	}
	driver := newWith(map[corev1.ResourceName]string{"requests.memory": "1Gi", "pods": "9"})
	desired.Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}, Limits: list("2", "256Mi")}
	g.Expect(driver.Ensure(t.Context(), desired)).To(Succeed())
	expectList(g, planeOf(g, t, desired).Requests, "100m", "256Mi")
	expectList(g, planeOf(g, t, desired).Limits, "2", "256Mi")

	larger := desired
	larger.Resources = corev1.ResourceRequirements{Requests: list("1", "2Gi")}
	expectRefusal(g, driver.Ensure(t.Context(), larger), clusterdriver.NoRoom, "requests.memory=1Gi")
	expectList(g, planeOf(g, t, desired).Limits, "2", "256Mi")
	g.Expect(driver.Repair(t.Context())).To(Succeed(), "it knows what it was asked for before")

	smaller := newWith(map[corev1.ResourceName]string{"requests.memory": "100Mi"})
	g.Expect(smaller.Ensure(t.Context(), desired)).To(Succeed(), "what runs stays")
	expectRefusal(g, smaller.Ensure(t.Context(), larger), clusterdriver.NoRoom, "requests.memory=100Mi")

	desired.Resources = corev1.ResourceRequirements{}
	g.Expect(driver.Ensure(t.Context(), desired)).To(Succeed())
	expectList(g, planeOf(g, t, desired).Requests, "40m", "320Mi")
	g.Expect(planeOf(g, t, desired).Limits).To(BeEmpty())
	g.Eventually(func() (bool, error) { return driver.Remove(t.Context(), desired.Name, desired.UID) }).WithTimeout(time.Minute).Should(BeTrue())
}
