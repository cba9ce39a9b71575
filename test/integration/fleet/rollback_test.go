package fleet

import (
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// describeRollbacks has the specs in which a rollback is interrupted.
func describeRollbacks() {
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
