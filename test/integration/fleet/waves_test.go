package fleet

import (
	"context"
	"os"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

const (
	sample = "../../../config/samples/machinefleet.yaml"
	pool   = localfleet.WorkersName
)

var _ = Describe("The sample MachineFleet", Ordered, func() {
	var canary, second, third, fourth *localfleet.Member
	BeforeAll(func() {
		canary, second, third, fourth = fleet.Members[0], fleet.Members[1], fleet.Members[2], fleet.Members[3]
	})

	// Claim: No Machine before the canary's soak; adoption keeps foreign fields. Broken: labels of others are taken away; all waves start at once, and the record says that the canary succeeded long ago.
	It("should adopt what each cluster has, the canary first", func(ctx SpecContext) {
		text, err := os.ReadFile(sample)
		Expect(err).NotTo(HaveOccurred())
		written := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal(text, written)).To(Succeed())
		before := deployments(ctx)
		strict := client.WithFieldValidation(fleet.HubClient, metav1.FieldValidationStrict)
		Expect(strict.Create(ctx, written)).To(Succeed())
		Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(written), workers)).To(Succeed())
		expectRolledOut(ctx, "v1.36.2")
		expectCanaryFirst(ctx, "v1.36.2")
		expectAdopted(ctx, before)
	}, SpecTimeout(fleettest.Patience))

	// Claim: A failed canary leaves others unchanged and is rolled back. Broken: another cluster gets a label.
	It("should move nothing further when the canary fails, and take the canary back", func(ctx SpecContext) {
		before, machines, specs := workers.Spec.Template.DeepCopy(), machinesOfAll(ctx), specsOfAll(ctx)
		edit(ctx, func() {
			workers.Spec.RollbackPolicy = v1alpha1.RollbackFailed
			workers.Spec.Template.Spec.ProgressDeadlineSeconds = new(int32(5))
			workers.Spec.Template.Spec.Template.Spec.ProviderConfig.ValueRef.Name = "missing"
		})
		expectProgress(ctx, v1alpha1.ReasonRolledBack)
		Expect(workers.Status.Failures).To(ConsistOf(And(HaveField("Cluster", canary.Name), HaveField("Reason", v1alpha1.ReasonRolledBack))))
		Expect(workers.Status.Clusters).To(And(HaveField("RolledBack", BeEquivalentTo(1)), HaveField("Waiting", BeEquivalentTo(3))))
		for _, member := range fleet.Members {
			Expect(deploymentOf(ctx, NewWithT(GinkgoT()), member).Spec.Template.Spec.ProviderConfig.ValueRef.Name).To(Equal("small"))
			fleet.ExpectReady(ctx, member, pool, 1)
		}
		expectSpecs(ctx, specs)
		Expect(machinesOfAll(ctx)).To(Equal(machines), "that of the canary was not replaced before there was another")
		for _, member := range []*localfleet.Member{second, third, fourth} {
			expectNoSet(ctx, member, HaveField("Spec.Template.Spec.ProviderConfig.ValueRef.Name", "missing"))
		}

		edit(ctx, func() { workers.Spec.Template = *before })
		expectRolledOut(ctx, before.Spec.Template.Spec.Versions.Kubelet)
	}, SpecTimeout(2*fleettest.Patience))

	// Claim: Nothing starts in a frozen cluster; cut-off ones keep their place and catch up. Broken: held clusters are started.
	It("should hold a cluster that is cut off in mid-wave and one that is frozen, and let them catch up", fleettest.Long, func(ctx SpecContext) {
		thaw := freeze(ctx, fourth)
		kubelet := upgrade(ctx)
		mend := cutInMidWave(ctx, second)
		before := machinesOf(ctx, second)
		expectKubelets(ctx, kubelet, canary, third)
		expectProgress(ctx, v1alpha1.ReasonClustersHeld)
		Expect(workers.Status.Message).To(And(ContainSubstring(second.Name), ContainSubstring(fourth.Name)))
		g := NewWithT(GinkgoT())
		Expect(recordOf(ctx, g, second)).To(And(HaveField("Phase", "Progressing"), HaveField("Held", true)), "it keeps its place")
		Expect(machinesOf(ctx, second)).To(Equal(before), "nothing comes or goes where the agent is silent")
		Expect(recordOf(ctx, g, fourth).Revision).NotTo(Equal(workers.Status.Revision), "nothing is started where it is frozen")
		Expect(machinesOf(ctx, fourth)).To(HaveEach(HaveSuffix("v1.36.2")))

		Expect(mend(ctx)).To(Succeed())
		Expect(thaw(ctx)).To(Succeed())
		expectRolledOut(ctx, kubelet)
	}, SpecTimeout(2*fleettest.Patience))

	// Claim: A hub killed in a soak neither restarts nor shortens it. Broken: the soak starts over while no agent has been heard.
	It("should continue where it was when the hub is killed in the soak and in mid-wave", func(ctx SpecContext) {
		kubelet := upgrade(ctx)
		expectPhase(ctx, canary, "Soaking")
		soaking := recordOf(ctx, NewWithT(GinkgoT()), canary)
		killHub(ctx)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			now := recordOf(ctx, g, canary)
			if now.Phase == "Soaking" && !now.Since.Equal(soaking.Since) {
				StopTrying("the soak started over").Attach("before", soaking).Attach("now", now).Now()
			}
			g.Expect(recordOf(ctx, g, second)).To(And(HaveField("Phase", "Progressing"), HaveField("Revision", workers.Status.Revision)))
		}).WithPolling(glance).Should(Succeed())
		ended := recordOf(ctx, NewWithT(GinkgoT()), canary)
		Expect(ended.Phase).To(Equal("Succeeded"))
		Expect(ended.Since.Sub(soaking.Since)).To(BeNumerically(">=", soak()), "the soak is no shorter for the restart")
		killHub(ctx)
		expectRolledOut(ctx, kubelet)
		expectCanaryFirst(ctx, kubelet)
	}, SpecTimeout(2*fleettest.Patience))

	DescribeTable("should continue where it was when the hub is killed", fleettest.Long, func(ctx SpecContext, kill func(ctx SpecContext) (kubelet string)) {
		kubelet := kill(ctx)
		expectRolledOut(ctx, kubelet)
		expectCanaryFirst(ctx, kubelet)
	},
		// Claim: A hub killed between phases starts with the canary and no unapproved group. Broken: after its start, a hub starts all waves at once; it takes groups for approved. Also: "when the canary is in progress", "between two waves, which wait for approval".
		Entry("before it starts", SpecTimeout(2*fleettest.Patience), func(ctx SpecContext) string {
			killed := fleet.HubProcess
			Expect(killed.Signal(syscall.SIGKILL)).To(Succeed())
			<-killed.Done()
			kubelet := upgrade(ctx)
			Expect(fleet.StartHubProcess(ctx)).To(Succeed())
			return kubelet
		}),
		Entry("when the canary is in progress", SpecTimeout(2*fleettest.Patience), func(ctx SpecContext) string {
			kubelet := upgrade(ctx)
			expectPhase(ctx, canary, "Progressing")
			killHub(ctx)
			return kubelet
		}),
		Entry("between two waves, which wait for approval", SpecTimeout(2*fleettest.Patience), func(ctx SpecContext) string {
			before := workers.Spec.DeepCopy()
			edit(ctx, func() {
				workers.Spec.Groups = append(workers.Spec.Groups, v1alpha1.MachineFleetGroup{
					Name: "production", Approval: v1alpha1.GroupApprovalRequired,
					ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{localfleet.StageLabel: localfleet.StageProduction}},
				})
			})
			DeferCleanup(func(ctx SpecContext) {
				edit(ctx, func() { workers.Spec.Groups = before.Groups })
			})
			kubelet := upgrade(ctx)
			expectProgress(ctx, v1alpha1.ReasonAwaitingApproval)
			killHub(ctx)
			// The hub has heard all agents again when it puts right what is edited in each cluster.
			for _, member := range []*localfleet.Member{second, third, fourth} {
				expectCorrected(ctx, member)
			}
			Expect(begun(ctx)).To(Equal(1), "only the canary has been started")
			Expect(fleet.HubClient.Create(ctx, fleettest.ApprovalOf(workers, "production"))).To(Succeed())
			return kubelet
		}),
	)

	// Claim: Skip continues without a frozen cluster, Fail stops; both recover. Broken: every policy is Hold. Also: "should begin nothing further while a cluster of the wave is cut off if the policy is Fail".
	It("should continue without a cluster that is frozen in mid-wave if the policy is Skip", fleettest.Long, func(ctx SpecContext) {
		oneAtATime(ctx, v1alpha1.UnreachableSkip)
		kubelet := upgrade(ctx)
		expectPhase(ctx, second, "Progressing")
		thaw := freeze(ctx, second)
		expectKubelets(ctx, kubelet, canary, third, fourth)
		expectProgress(ctx, v1alpha1.ReasonClustersHeld)
		Expect(recordOf(ctx, NewWithT(GinkgoT()), second)).To(And(HaveField("Phase", "Progressing"), HaveField("Held", true)),
			"what a frozen cluster reports does not count")
		Expect(thaw(ctx)).To(Succeed())
		expectRolledOut(ctx, kubelet)
	}, SpecTimeout(2*fleettest.Patience))

	It("should start nothing further while a cluster of the wave is cut off if the policy is Fail", fleettest.Long, func(ctx SpecContext) {
		oneAtATime(ctx, v1alpha1.UnreachableFail)
		kubelet := upgrade(ctx)
		mend := cutInMidWave(ctx, second)
		expectProgress(ctx, v1alpha1.ReasonTooManyFailures)
		Expect(workers.Status.Failures).To(ConsistOf(And(HaveField("Cluster", second.Name), HaveField("Reason", v1alpha1.ReasonClusterUnreachable))))
		Expect(begun(ctx)).To(Equal(2), "the canary and the one that is cut off")
		Expect(mend(ctx)).To(Succeed())
		expectRolledOut(ctx, kubelet)
	}, SpecTimeout(2*fleettest.Patience))

	It("should take in a cluster that joins in mid-rollout, and leave one alone that leaves", fleettest.Long, func(ctx SpecContext) {
		oneAtATime(ctx, v1alpha1.UnreachableHold)
		setStage(ctx, fourth, "")
		expectSelected(ctx, 3)
		old, stays := workers.Spec.Template.Spec.Template.Spec.Versions.Kubelet, machinesOf(ctx, third)
		kubelet := upgrade(ctx)
		expectPhase(ctx, second, "Progressing")
		setStage(ctx, third, "")
		setStage(ctx, fourth, localfleet.StageProduction)
		expectKubelets(ctx, kubelet, canary, second, fourth)
		expectProgress(ctx, v1alpha1.ReasonRolloutComplete)
		Expect(machinesOf(ctx, third)).To(Equal(stays), "it left before its turn")
		expectKubelets(ctx, old, third)
		setStage(ctx, third, localfleet.StageProduction)
		expectRolledOut(ctx, kubelet)
		expectCanaryFirst(ctx, kubelet)
	}, SpecTimeout(2*fleettest.Patience))

	// Claim: A changed template starts with the canary again. Broken: a cluster in progress with the template before takes up no room.
	It("should start with the canary again when the template changes in mid-rollout", fleettest.Long, func(ctx SpecContext) {
		oneAtATime(ctx, v1alpha1.UnreachableHold)
		dropped := upgrade(ctx)
		expectPhase(ctx, second, "Progressing")
		kubelet := upgrade(ctx)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			progressing := 0
			records := recordsOf(ctx, g)
			for _, r := range records {
				if r.Phase == "Progressing" {
					progressing++
				}
			}
			if progressing > 1 {
				StopTrying("more clusters than maxConcurrency are in progress").Attach("records", records).Now()
			}
			g.Expect(records).To(HaveKeyWithValue(fourth.Name, HaveField("Phase", "Progressing")))
		}).WithPolling(glance).Should(Succeed(), "the last cluster is started")
		expectRolledOut(ctx, kubelet)
		expectCanaryFirst(ctx, kubelet)
		for _, member := range []*localfleet.Member{third, fourth} {
			expectNoSet(ctx, member, HaveField("Spec.Template.Spec.Versions.Kubelet", dropped))
		}
	}, SpecTimeout(2*fleettest.Patience))

	describeRollbacks()
	describeOverrides()
	describeLateClusters()
})
