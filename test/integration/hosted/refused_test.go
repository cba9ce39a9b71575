package hosted

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

func newSimulated(namespace, name, version string) *v1alpha1.SimulatedCluster {
	one := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	one.Spec.Versions.ControlPlane = version
	return one
}

var _ = Describe("A SimulatedCluster that cannot be", fleettest.Long, func() {
	// Claim: A wrong version, name or host starts nothing and leaves no trace. Broken: the certificate request stays.
	It("should say why, start nothing, and go without a trace", func(ctx SpecContext) {
		const name = "good"
		o := fleet.observe(ctx, name)
		set := fleet.createSet(ctx, name, 1, 1)
		good := namesOf(name, 0)
		o.expectSettled(ctx, 1, good, older)
		cluster := &v1alpha1.Cluster{}
		Expect(fleet.hub.Get(ctx, client.ObjectKey{Name: good[0]}, cluster)).To(Succeed())
		before := o.machineUIDs(ctx, good)

		for version, wrong := range map[string]string{"1.36": "write it as v1.36", "v1.33": "from v1.34 on", "latest": "write it as v1.36"} {
			Expect(fleet.hub.Create(ctx, newSimulated(localfleet.HostName, "bad", version))).To(MatchError(And(ContainSubstring("versions.controlPlane"), ContainSubstring(wrong))))
		}
		type refusal struct {
			one                      *v1alpha1.SimulatedCluster
			condition, reason, field string
		}
		refusals := []refusal{
			{newSimulated(localfleet.HostName, "bad", "v1.39"), v1alpha1.ControlPlaneReadyCondition, v1alpha1.ReasonVersionNotSupported, "spec.versions.controlPlane: "},
			{newSimulated(localfleet.HostName, localfleet.HostName, older), v1alpha1.ClusterCreatedCondition, v1alpha1.ReasonNameTaken, "metadata.name: "},
			{newSimulated(good[0], "nested", older), v1alpha1.ClusterCreatedCondition, v1alpha1.ReasonHostSimulated, "metadata.namespace: "},
			{newSimulated("default", "lost", older), v1alpha1.ClusterCreatedCondition, v1alpha1.ReasonNoHost, "metadata.namespace: "},
			{newSimulated("default", good[0], older), v1alpha1.ClusterCreatedCondition, v1alpha1.ReasonNameTaken, "metadata.name: "},
		}
		for _, r := range refusals {
			Expect(fleet.hub.Create(ctx, r.one)).To(Succeed())
		}
		for _, r := range refusals {
			Eventually(ctx, func(g Gomega) {
				g.Expect(fleet.hub.Get(ctx, client.ObjectKeyFromObject(r.one), r.one)).To(Succeed())
				g.Expect(meta.FindStatusCondition(r.one.Status.Conditions, r.condition)).To(HaveValue(And(HaveField("Reason", r.reason), HaveField("Message", HavePrefix(r.field)))), r.one.Name)
			}).Should(Succeed())
		}
		Expect(o.recordedNames()).To(ConsistOf(good), "the keeper records nothing that it refuses")
		for _, r := range refusals {
			Expect(fleet.hub.Delete(ctx, r.one)).To(Succeed())
		}
		for _, r := range refusals {
			Eventually(ctx, func() error { return fleet.hub.Get(ctx, client.ObjectKeyFromObject(r.one), r.one) }).Should(MatchError(ContainSubstring("not found")))
		}
		o.expectNothing(ctx, []string{"bad", "nested", "lost"})
		o.expectWhole(ctx, good, 1, older)
		Expect(o.machineUIDs(ctx, good)).To(ConsistOf(before))
		uid := cluster.UID
		Expect(fleet.hub.Get(ctx, client.ObjectKey{Name: good[0]}, cluster)).To(Succeed())
		Expect(cluster.UID).To(Equal(uid), "the Cluster of another stays")
		fleet.scale(ctx, set, 0)
		fleet.expectReady(ctx, set, 0)
		o.expectNothing(ctx, good)
	}, SpecTimeout(fleettest.Patience))
})
