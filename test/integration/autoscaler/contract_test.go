package autoscaler

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var _ = Describe("cluster-autoscaler with the clusterapi provider", func() {
	var w *env

	BeforeEach(func(ctx SpecContext) { w = newEnv(ctx) })

	hidden := func() {
		GinkgoHelper()
		Eventually(w.autoscaler.nodeGroups).Should(BeEmpty())
	}
	instances := func(wanted ...string) {
		GinkgoHelper()
		Eventually(func() []string { return w.autoscaler.instances(w.pool()) }).Should(ConsistOf(wanted))
	}

	It("should find the groups that have sizes, and no others", func(ctx SpecContext) {
		w.deploy(ctx, "pool", 1, sizes("1", "5"))
		w.deploy(ctx, "fixed", 1, nil)
		found := w.pool()
		Expect(found.least).To(Equal(1))
		Expect(found.most).To(Equal(5))
		Expect(found.targetSize()).To(BeEquivalentTo(1))
		groups, err := w.autoscaler.nodeGroups()
		Expect(err).NotTo(HaveOccurred())
		Expect(groups).To(HaveLen(1), "one deployment without sizes and two owned sets are no groups")
	})

	It("should see a machine pending, running, deleting and failed", func(ctx SpecContext) {
		w.deploy(ctx, "pool", 3, sizes("0", "5"))
		machines := w.machines(ctx, "pool")
		id := func(state string, i int) string { return state + "-machine-" + w.cluster.Name + "_" + machines[i].Name }
		instances(id("pending", 0), id("pending", 1), id("pending", 2))

		w.join(ctx, machines...)
		instances(providerID(&machines[0]), providerID(&machines[1]), providerID(&machines[2]))
		Expect(w.autoscaler.groupOf(providerID(&machines[0]))).To(Equal("MachineDeployment/" + w.cluster.Name + "/pool"))

		failed := machines[1].DeepCopy()
		failed.Status.Phase, failed.Status.ErrorReason = v1alpha1.MachineFailed, v1alpha1.ErrorInvalidConfiguration
		failed.Status.ErrorMessage, failed.Status.FailureMessage = "no such image", "no such image"
		Expect(environment.Client.Status().Patch(ctx, failed, client.MergeFrom(&machines[1]))).To(Succeed())
		Expect(environment.Client.Delete(ctx, &machines[2])).To(Succeed())
		instances(providerID(&machines[0]), id("failed", 1), id("deleting", 2))
	})

	It("should scale up, and no further than its maximum", func(ctx SpecContext) {
		w.deploy(ctx, "pool", 1, sizes("0", "4"))
		w.autoscaler.increase(ctx, w.pool(), 2)
		Eventually(func() int { return len(w.machines(ctx, "pool")) }).Should(Equal(3))
		Eventually(func() int64 { return w.pool().targetSize() }).Should(BeEquivalentTo(3))
		Expect(w.autoscaler.replicas(ctx, w.pool())).To(Equal(3))
		Expect(w.autoscaler.setSize(ctx, w.pool(), 5)).NotTo(Succeed())
	})

	It("should take exactly the machine that it marks", func(ctx SpecContext) {
		w.deploy(ctx, "pool", 4, sizes("0", "5"))
		machines := w.machines(ctx, "pool")
		w.join(ctx, machines...)
		for len(machines) > 1 {
			victim := machines[len(machines)-1]
			machines = machines[:len(machines)-1]
			Eventually(func() any { return w.autoscaler.findMachine(providerID(&victim)) }).ShouldNot(BeNil())
			Expect(w.autoscaler.deleteNodes(ctx, w.pool(), providerID(&victim))).To(Succeed())
			Eventually(func() []string { return names(w.machines(ctx, "pool")) }).Should(ConsistOf(names(machines)))
			w.finish(ctx)
		}
		Consistently(func() []string { return names(w.machines(ctx, "pool")) }).Should(ConsistOf(names(machines)), "nothing more goes")
	})

	It("should take the machine that it marks and not one whose scale-down failed before", func(ctx SpecContext) {
		w.deploy(ctx, "pool", 3, sizes("0", "5"))
		machines := w.machines(ctx, "pool")
		w.join(ctx, machines...)
		w.autoscaler.mark(ctx, machines[0].Name) // And then neither the scale-down nor taking the mark off worked.
		Eventually(func() any { return w.autoscaler.findMachine(providerID(&machines[1])) }).ShouldNot(BeNil())
		Expect(w.autoscaler.deleteNodes(ctx, w.pool(), providerID(&machines[1]))).To(Succeed())
		Eventually(func() []string { return names(w.machines(ctx, "pool")) }).Should(ConsistOf(machines[0].Name, machines[2].Name))
	})

	It("should cancel a machine that is still pending before any other", func(ctx SpecContext) {
		w.deploy(ctx, "pool", 2, sizes("0", "5"))
		ready := w.machines(ctx, "pool")
		w.join(ctx, ready...)
		w.autoscaler.increase(ctx, w.pool(), 1)
		Eventually(func() int { return len(w.machines(ctx, "pool")) }).Should(Equal(3))
		Eventually(func() []string { return w.autoscaler.instances(w.pool()) }).Should(HaveLen(3))
		Expect(w.autoscaler.decrease(ctx, w.pool(), 2)).NotTo(Succeed(), "two are nodes")
		Expect(w.autoscaler.decrease(ctx, w.pool(), 1)).To(Succeed())
		Eventually(func() []string { return names(w.machines(ctx, "pool")) }).Should(ConsistOf(names(ready)))
	})

	It("should scale to zero and from zero, and know what a node will look like", func(ctx SpecContext) {
		w.deploy(ctx, "pool", 1, sizes("0", "5"))
		Expect(w.autoscaler.setSize(ctx, w.pool(), 0)).To(Succeed())
		Eventually(func() []string { return names(w.machines(ctx, "pool")) }).Should(BeEmpty())
		w.finish(ctx)
		Eventually(func() int64 { return w.pool().targetSize() }).Should(BeZero(), "it is still a group")

		node := w.pool().templateNode()
		Expect(node.Labels).To(Equal(map[string]string{
			"zone": "a", "node.cluster.x-k8s.io/pool": "p", "node-role.kubernetes.io/worker": "", "hollowfleet.io/hollow": "true",
		}))
		Expect(node.Spec.Taints).To(ConsistOf(corev1.Taint{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}))
		for name, wanted := range map[corev1.ResourceName]string{
			"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "50", "example.com/gpu": "2",
		} {
			quantity := node.Status.Capacity[name]
			Expect(quantity.Cmp(resource.MustParse(wanted))).To(BeZero(), "%s is %s", name, &quantity)
		}
		w.autoscaler.increase(ctx, w.pool(), 2)
		Eventually(func() int { return len(w.machines(ctx, "pool")) }).Should(Equal(2))
	})

	It("should believe a user about the capacity", func(ctx SpecContext) {
		annotations := sizes("0", "5")
		annotations[v1alpha1.AutoscalerCapacityPrefix+"cpu"] = "32"
		w.deploy(ctx, "pool", 0, annotations)
		Eventually(func() string { return w.pool().GetAnnotations()[v1alpha1.AutoscalerCapacityPrefix+"memory"] }).Should(Equal("16Gi"))
		Expect(w.pool().GetAnnotations()).To(HaveKeyWithValue(v1alpha1.AutoscalerCapacityPrefix+"cpu", "32"))
	})

	It("should keep its hands off what is frozen or paused", func(ctx SpecContext) {
		deployment := w.deploy(ctx, "pool", 1, sizes("0", "5"))
		machines := w.machines(ctx, "pool")
		w.join(ctx, machines...)
		groupOfNode := func() string { return w.autoscaler.groupOf(providerID(&machines[0])) }
		Eventually(groupOfNode).Should(Equal(w.pool().id()))
		change := func(object client.Object, patch string) {
			GinkgoHelper()
			Expect(environment.Client.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
		}
		change(w.cluster, `{"metadata":{"annotations":{"hollowfleet.io/freeze":"an experiment"}}}`)
		hidden()
		Expect(groupOfNode()).To(BeEmpty(), "its node belongs to no group")
		change(w.cluster, `{"metadata":{"annotations":{"hollowfleet.io/freeze":null}}}`)
		w.pool()
		change(deployment, `{"spec":{"paused":true}}`)
		hidden()
		change(deployment, `{"spec":{"paused":false}}`)
		w.pool()
		change(deployment, `{"metadata":{"annotations":{"cluster.x-k8s.io/paused":""}}}`)
		hidden()
		change(w.cluster, `{"metadata":{"annotations":{"hollowfleet.io/freeze":"another"}}}`)
		change(w.cluster, `{"metadata":{"annotations":{"hollowfleet.io/freeze":null}}}`)
		Consistently(w.autoscaler.nodeGroups).Should(BeEmpty(), "what a user paused, a thaw does not give free")
	})

	It("should know when a rollout is under way", func(ctx SpecContext) {
		deployment := w.deploy(ctx, "pool", 2, sizes("0", "5"))
		w.join(ctx, w.machines(ctx, "pool")...)
		Eventually(func() bool { return w.autoscaler.rollingOut(w.pool()) }).Should(BeFalse())
		patch := client.MergeFrom(deployment.DeepCopy())
		deployment.Spec.Template.Spec.Versions.Kubelet = "v1.37.1"
		Expect(environment.Client.Patch(ctx, deployment, patch)).To(Succeed())
		Eventually(func() bool { return w.autoscaler.rollingOut(w.pool()) }).Should(BeTrue())
		Eventually(func() bool {
			w.joinAll(ctx)
			w.finish(ctx)
			return w.autoscaler.rollingOut(w.pool())
		}).Should(BeFalse())
	})

	It("should scale a machine set that has no deployment", func(ctx SpecContext) {
		w.deployLone(ctx, sizes("0", "3"))
		w.autoscaler.increase(ctx, w.group("MachineSet", "lone"), 2)
		Eventually(func() int { return len(w.machines(ctx, "lone")) }).Should(Equal(2))
		machines := w.machines(ctx, "lone")
		w.join(ctx, machines...)
		Eventually(func() any { return w.autoscaler.findMachine(providerID(&machines[0])) }).ShouldNot(BeNil())
		Expect(w.autoscaler.groupOf(providerID(&machines[0]))).To(Equal("MachineSet/" + w.cluster.Name + "/lone"))
		Expect(w.autoscaler.deleteNodes(ctx, w.group("MachineSet", "lone"), providerID(&machines[0]))).To(Succeed())
		Eventually(func() []string { return names(w.machines(ctx, "lone")) }).Should(ConsistOf(machines[1].Name))
	})

	It("should never meet sizes that it cannot read", func(ctx SpecContext) {
		w.deploy(ctx, "pool", 1, sizes("0", "5"))
		bad := w.deploy(ctx, "bad", 0, nil)
		for _, annotations := range []map[string]string{sizes("one", "5"), sizes("5", "4")} {
			changed := bad.DeepCopy()
			changed.Annotations = annotations
			Eventually(func() error { return environment.Client.Patch(ctx, changed.DeepCopy(), client.MergeFrom(bad)) }).
				Should(MatchError(ContainSubstring("cluster-api-autoscaler-node-group")))
		}
		_, err := w.autoscaler.nodeGroups()
		Expect(err).NotTo(HaveOccurred())
	})
})

// joinAll lets every Machine join that has not.
func (w *env) joinAll(ctx context.Context) {
	GinkgoHelper()
	for _, machine := range w.machines(ctx, "pool") {
		if machine.Status.NodeRef == nil {
			w.join(ctx, machine)
		}
	}
}
