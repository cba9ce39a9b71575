package autoscaler

import (
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var _ = Describe("cluster-autoscaler at work", func() {
	var w *env

	BeforeEach(func(ctx SpecContext) { w = newEnv(ctx) })

	// known waits until the autoscaler sees that a Machine is a node.
	known := func(machines ...v1alpha1.Machine) {
		GinkgoHelper()
		for i := range machines {
			Eventually(func() any { return w.autoscaler.findMachine(providerID(&machines[i])) }).ShouldNot(BeNil())
		}
	}

	// Claim: A Machine that the autoscaler unmarks is not taken. Broken: the hub remembers a mark that is gone.
	It("should take its mark off again when the scale-down fails", func(ctx SpecContext) {
		w.deploy(ctx, "pool", 3, sizes("0", "5"))
		machines := w.machines(ctx, "pool")
		w.join(ctx, machines...)
		known(machines...)
		w.autoscaler.wire.lose(true)
		Expect(w.autoscaler.deleteNodes(ctx, w.pool(), providerID(&machines[0]))).To(MatchError(ContainSubstring("the request is lost")))
		w.autoscaler.wire.lose(false)
		Expect(w.autoscaler.wire.sent()).To(ContainElement("update machines"))
		left := &v1alpha1.Machine{}
		Expect(environment.Client.Get(ctx, client.ObjectKeyFromObject(&machines[0]), left)).To(Succeed())
		Expect(left.Annotations).NotTo(HaveKey(v1alpha1.DeleteMachineAnnotation))

		// A priority comes after a mark: were the mark remembered, the first would go.
		preferred := machines[1].DeepCopy()
		preferred.Annotations = map[string]string{v1alpha1.DeletionPriorityAnnotation: "1"}
		Expect(environment.Client.Patch(ctx, preferred, client.MergeFrom(&machines[1]))).To(Succeed())
		Expect(w.autoscaler.setSize(ctx, w.pool(), 2)).To(Succeed())
		Eventually(func() []string { return names(w.machines(ctx, "pool")) }).Should(ConsistOf(machines[0].Name, machines[2].Name))
	})

	It("should take several machines in one go, and never below its minimum", func(ctx SpecContext) {
		w.deploy(ctx, "pool", 5, sizes("2", "5"))
		machines := w.machines(ctx, "pool")
		w.join(ctx, machines...)
		known(machines...)
		id := func(i int) string { return providerID(&machines[i]) }
		Expect(w.autoscaler.deleteNodes(ctx, w.pool(), id(0), id(1), id(2), id(3))).NotTo(Succeed())
		Expect(w.autoscaler.deleteNodes(ctx, w.pool(), id(1), id(2), id(4))).To(Succeed())
		Eventually(func() []string { return names(w.machines(ctx, "pool")) }).Should(ConsistOf(machines[0].Name, machines[3].Name))
		Eventually(func() []string { return w.autoscaler.instances(w.pool()) }).Should(ConsistOf(id(0), id(3),
			"deleting-machine-"+w.cluster.Name+"_"+machines[1].Name, "deleting-machine-"+w.cluster.Name+"_"+machines[2].Name,
			"deleting-machine-"+w.cluster.Name+"_"+machines[4].Name))
	})

	It("should give up a machine that does not become a node", func(ctx SpecContext) {
		w.deploy(ctx, "pool", 3, sizes("0", "5"))
		machines := w.machines(ctx, "pool")
		w.join(ctx, machines[0], machines[1])
		known(machines[:2]...)
		late := "pending-machine-" + w.cluster.Name + "_" + machines[2].Name
		Expect(w.autoscaler.instances(w.pool())).To(ContainElement(late))
		Expect(w.autoscaler.groupOf(late)).To(Equal(w.pool().id()))
		Expect(w.autoscaler.deleteNodes(ctx, w.pool(), late)).To(Succeed())
		Eventually(func() []string { return names(w.machines(ctx, "pool")) }).Should(ConsistOf(names(machines[:2])))

		going := "deleting-machine-" + w.cluster.Name + "_" + machines[2].Name
		Eventually(func() []string { return w.autoscaler.instances(w.pool()) }).Should(ContainElement(going))
		Expect(w.autoscaler.deleteNodes(ctx, w.pool(), going)).To(Succeed(), "it is going already")
		Expect(w.autoscaler.replicas(ctx, w.pool())).To(Equal(2))
	})

	// Claim: The autoscaler's options stay as set. Broken: the hub removes them.
	It("should read the options that a user sets, also during and after a rollout", func(ctx SpecContext) {
		wanted := map[string]string{
			"scaledownutilizationthreshold": "0.7", "scaledowngpuutilizationthreshold": "0.6", "scaledownunneededtime": "5m",
			"scaledownunreadytime": "1h0m0s", "maxnodeprovisiontime": "30m", "maxnodestartuptime": "20m",
		}
		annotations := sizes("0", "5")
		for name, value := range wanted {
			annotations[group+"/autoscaling-options-"+name] = value
		}
		maps.Copy(annotations, map[string]string{ // The provider knows these two as well, and the hub does not write them.
			v1alpha1.AutoscalerCapacityPrefix + "dra-driver": "gpu.example.com",
			v1alpha1.AutoscalerCapacityPrefix + "csi-driver": "ebs.csi.aws.com=25",
		})
		w.deployLone(ctx, annotations)
		Eventually(func() map[string]string { return w.group("MachineSet", "lone").options() }).Should(Equal(wanted))
		deployment := w.deploy(ctx, "pool", 2, annotations)
		w.join(ctx, w.machines(ctx, "pool")...)
		unchanged := func() {
			GinkgoHelper()
			Expect(w.pool().options()).To(Equal(wanted))
			for key, value := range annotations {
				Expect(w.pool().GetAnnotations()).To(HaveKeyWithValue(key, value))
			}
		}
		unchanged()
		before := client.MergeFrom(deployment.DeepCopy())
		deployment.Spec.Template.Spec.Versions.Kubelet = "v1.37.1"
		Expect(environment.Client.Patch(ctx, deployment, before)).To(Succeed())
		Eventually(func() bool { return w.autoscaler.rollingOut(w.pool()) }).Should(BeTrue())
		Eventually(func() bool {
			unchanged()
			w.joinAll(ctx)
			w.finish(ctx)
			return w.autoscaler.rollingOut(w.pool())
		}).Should(BeFalse())
		unchanged()
	})
})
