package fleet

import (
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// describeRollbacks has the specs in which a rollback is interrupted, concerns clusters that did not fail, or is followed by
// another try.
func describeRollbacks() {
	It("should take every cluster back if the policy is All, and start again in these when told to", fleettest.Long, func(ctx SpecContext) {
		canary, broken := fleet.Members[0], fleet.Members[1]
		before := workers.Spec.DeepCopy()
		earlier, kubelet := before.Template.Spec.Template.Spec.Versions.Kubelet, nextKubelet()
		DeferCleanup(func(ctx SpecContext) {
			edit(ctx, func() { workers.Spec.Overrides, workers.Spec.RollbackPolicy = before.Overrides, before.RollbackPolicy })
		})
		label(ctx, broken, tierLabel, "broken")
		edit(ctx, func() {
			missing := override(tierLabel, "broken")
			missing.Template = &runtime.RawExtension{Raw: []byte(`{"spec":{"progressDeadlineSeconds":5,"template":{"spec":{"providerConfig":{"valueRef":{"name":"later"}}}}}}`)}
			workers.Spec.Overrides, workers.Spec.RollbackPolicy = []v1alpha1.MachineFleetOverride{missing}, v1alpha1.RollbackAll
			workers.Spec.Template.Spec.Template.Spec.Versions.Kubelet = kubelet
		})
		expectPhase(ctx, canary, "Succeeded")
		expectKubelets(ctx, kubelet, canary)
		expectProgress(ctx, v1alpha1.ReasonRolledBack)
		counts := &workers.Status.Clusters
		Expect(counts.RolledBack).To(BeNumerically(">=", 2), "the canary, which had succeeded, and the one that failed")
		Expect(counts.RolledBack+counts.Waiting).To(BeEquivalentTo(len(fleet.Members)), workers.Status.Message)
		expectKubelets(ctx, earlier, fleet.Members...)
		Expect(recordOf(ctx, NewWithT(GinkgoT()), canary).Phase).To(Equal("RolledBack"))

		class := &v1alpha1.MachineClass{}
		Expect(fleet.HubClient.Get(ctx, client.ObjectKey{Namespace: broken.Name, Name: "small"}, class)).To(Succeed())
		later := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: broken.Name, Name: "later"}, Spec: class.Spec}
		Expect(fleet.HubClient.Create(ctx, later)).To(Succeed())
		edit(ctx, func() { workers.Spec.RetriedAt = new(metav1.Now()) })
		expectRolledOut(ctx, kubelet)
		Expect(fleet.MachinesOf(ctx, NewWithT(GinkgoT()), broken, pool)).To(HaveEach(HaveField("Spec.ProviderConfig.ValueRef.Name", "later")))

		edit(ctx, func() { workers.Spec.Overrides = before.Overrides })
		expectRolledOut(ctx, kubelet)
		Expect(fleet.HubClient.Delete(ctx, later)).To(Succeed())
	}, SpecTimeout(3*fleettest.Patience))

	// Claim: A rollback survives the hub's death and starts nothing else. Broken: after its start, a hub does not count what is rolled back.
	It("should finish a rollback in whose middle the hub is killed", fleettest.Long, func(ctx SpecContext) {
		canary, others := fleet.Members[0], fleet.Members[1:]
		before, machines, specs := workers.Spec.DeepCopy(), machinesOfAll(ctx, others...), specsOfAll(ctx)
		edit(ctx, func() {
			workers.Spec.RollbackPolicy = v1alpha1.RollbackFailed
			// The canary has lost its Machine when it fails, so that the rollback takes until it has another.
			workers.Spec.Template.Spec.Strategy.Type = v1alpha1.Recreate
			workers.Spec.Template.Spec.Template.Spec.ProviderConfig.ValueRef.Name = "missing"
		})
		expectPhase(ctx, canary, "RollingBack")
		failed := workers.Status.Revision
		killed := fleet.HubProcess
		Expect(killed.Signal(syscall.SIGKILL)).To(Succeed())
		<-killed.Done()
		Expect(recordOf(ctx, NewWithT(GinkgoT()), canary)).To(HaveField("Phase", "RollingBack"), "it was not over when the hub was killed")
		Expect(fleet.StartHubProcess(ctx)).To(Succeed())

		expectProgress(ctx, v1alpha1.ReasonRolledBack)
		Expect(workers.Status.Clusters).To(And(HaveField("RolledBack", BeEquivalentTo(1)), HaveField("Waiting", BeEquivalentTo(len(others)))))
		fleet.ExpectReady(ctx, canary, pool, 1)
		expectSpecs(ctx, specs)
		expectKubelets(ctx, before.Template.Spec.Template.Spec.Versions.Kubelet, fleet.Members...)
		Expect(machinesOfAll(ctx, others...)).To(Equal(machines), "nothing else was touched")
		for _, member := range others {
			expectNoSet(ctx, member, HaveField("Spec.Template.Spec.ProviderConfig.ValueRef.Name", "missing"))
			Expect(recordOf(ctx, NewWithT(GinkgoT()), member).Revision).NotTo(Equal(failed))
		}

		machines = machinesOfAll(ctx)
		edit(ctx, func() { workers.Spec.Template, workers.Spec.RollbackPolicy = before.Template, before.RollbackPolicy })
		expectRolledOut(ctx, before.Template.Spec.Template.Spec.Versions.Kubelet)
		Expect(machinesOfAll(ctx)).To(Equal(machines), "each cluster has that template already")
	}, SpecTimeout(2*fleettest.Patience))
}
