package fleet

import (
	"context"
	"encoding/json"
	"os"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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

// record is what the hub stores of a cluster with its MachineDeployment.
type record struct {
	Revision, Phase string
	Since           time.Time
}

var _ = Describe("The sample MachineFleet", Ordered, func() {
	var canary, second, third *localfleet.Member
	var workers *v1alpha1.MachineFleet
	BeforeAll(func() {
		canary, second, third = fleet.Members[0], fleet.Members[1], fleet.Members[2]
		workers = &v1alpha1.MachineFleet{}
	})

	It("should adopt what each cluster has, the canary first", func(ctx SpecContext) {
		text, err := os.ReadFile(sample)
		Expect(err).NotTo(HaveOccurred())
		written := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal(text, written)).To(Succeed())
		strict := client.WithFieldValidation(fleet.HubClient, metav1.FieldValidationStrict)
		Expect(strict.Create(ctx, written)).To(Succeed())
		Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(written), workers)).To(Succeed())
		expectRolledOut(ctx, workers, "v1.36.2")
		expectCanaryFirst(ctx, canary, second, third)
	}, SpecTimeout(fleettest.Patience))

	It("should move nothing further when the canary fails, and go back", func(ctx SpecContext) {
		before := workers.Spec.Template.DeepCopy()
		edit(ctx, workers, func() {
			workers.Spec.Template.Spec.ProgressDeadlineSeconds = new(int32(5))
			workers.Spec.Template.Spec.Template.Spec.ProviderConfig.ValueRef.Name = "missing"
		})
		expectProgress(ctx, workers, v1alpha1.ReasonTooManyFailures)
		Expect(workers.Status.Failures).To(ConsistOf(HaveField("Cluster", canary.Name)))
		Expect(workers.Status.Clusters.Waiting).To(BeEquivalentTo(2))
		for _, member := range []*localfleet.Member{second, third} {
			Expect(deploymentOf(ctx, NewWithT(GinkgoT()), member).Spec.Template.Spec.ProviderConfig.ValueRef.Name).To(Equal("small"))
			fleet.ExpectReady(ctx, member, pool, 1)
		}

		edit(ctx, workers, func() { workers.Spec.Template = *before })
		expectRolledOut(ctx, workers, "v1.36.2")
	}, SpecTimeout(2*fleettest.Patience))

	It("should hold a cluster that is cut off, go on with the others of its wave, and let it catch up", func(ctx SpecContext) {
		mend, err := fleet.Break(ctx, fleettest.Fault{Way: fleettest.Refuse, Part: fleettest.Agent}, third)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(mend)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			cluster := &v1alpha1.Cluster{}
			g.Expect(fleet.HubClient.Get(ctx, types.NamespacedName{Name: third.Name}, cluster)).To(Succeed())
			g.Expect(meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.FrozenCondition)).To(BeTrue())
		}).Should(Succeed(), "the hub notices that the agent is silent")
		upgrade(ctx, workers, "v1.37.0")
		expectKubelets(ctx, "v1.37.0", canary, second)
		expectProgress(ctx, workers, v1alpha1.ReasonClustersHeld)
		Expect(workers.Status.Message).To(ContainSubstring(third.Name))
		held := deploymentOf(ctx, NewWithT(GinkgoT()), third)
		Expect(held.Spec.Template.Spec.Versions.Kubelet).To(Equal("v1.36.2"), "nothing is begun where the hub hears nothing")

		Expect(mend(ctx)).To(Succeed())
		expectRolledOut(ctx, workers, "v1.37.0")
	}, SpecTimeout(2*fleettest.Patience))

	It("should go on where it was when the hub is killed in the soak and in mid-wave", func(ctx SpecContext) {
		upgrade(ctx, workers, "v1.37.1")
		Eventually(ctx, func(g Gomega, ctx context.Context) { g.Expect(recordOf(ctx, g, canary).Phase).To(Equal("Soaking")) }).
			WithPolling(20 * time.Millisecond).Should(Succeed())
		killHub(ctx)
		soaking := recordOf(ctx, NewWithT(GinkgoT()), canary)
		Eventually(ctx, func(g Gomega, ctx context.Context) { g.Expect(recordOf(ctx, g, second).Phase).To(Equal("Progressing")) }).
			WithPolling(20 * time.Millisecond).Should(Succeed())
		ended := recordOf(ctx, NewWithT(GinkgoT()), canary)
		Expect(ended.Phase).To(Equal("Succeeded"))
		if soaking.Phase == "Soaking" {
			Expect(ended.Since.Sub(soaking.Since)).To(BeNumerically(">=", soak(workers)), "the soak is no shorter for the restart")
		}
		killHub(ctx)
		expectRolledOut(ctx, workers, "v1.37.1")
		expectCanaryFirst(ctx, canary, second, third)
	}, SpecTimeout(2*fleettest.Patience))
})

// soak is what the fleet's strategy says.
func soak(workers *v1alpha1.MachineFleet) time.Duration {
	return workers.Spec.RolloutStrategy.Progressive.MinSuccessTime.Duration
}

// killHub kills the hub, and starts it again.
func killHub(ctx context.Context) {
	GinkgoHelper()
	killed := fleet.HubProcess
	Expect(killed.Signal(syscall.SIGKILL)).To(Succeed())
	<-killed.Done()
	Expect(fleet.StartHubProcess(ctx)).To(Succeed())
}

// edit changes the fleet as it is now.
func edit(ctx context.Context, workers *v1alpha1.MachineFleet, change func()) {
	GinkgoHelper()
	before := workers.DeepCopy()
	change()
	Expect(fleet.HubClient.Patch(ctx, workers, client.MergeFrom(before))).To(Succeed())
}

func upgrade(ctx context.Context, workers *v1alpha1.MachineFleet, kubelet string) {
	GinkgoHelper()
	edit(ctx, workers, func() { workers.Spec.Template.Spec.Template.Spec.Versions.Kubelet = kubelet })
}

// expectProgress waits until the hub gives that reason for the fleet's present spec.
func expectProgress(ctx context.Context, workers *v1alpha1.MachineFleet, reason string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleet.SuperviseHub(ctx)).To(Succeed())
		g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(workers), workers)).To(Succeed())
		g.Expect(workers.Status.ObservedGeneration).To(Equal(workers.Generation))
		g.Expect(meta.FindStatusCondition(workers.Status.Conditions, v1alpha1.ProgressingCondition)).
			To(HaveValue(HaveField("Reason", reason)), workers.Status.Message)
	}).Should(Succeed())
}

// expectRolledOut waits until the fleet is Ready, and all Nodes of all clusters have that kubelet.
func expectRolledOut(ctx context.Context, workers *v1alpha1.MachineFleet, kubelet string) {
	GinkgoHelper()
	expectProgress(ctx, workers, v1alpha1.ReasonRolloutComplete)
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(workers), workers)).To(Succeed())
		g.Expect(meta.FindStatusCondition(workers.Status.Conditions, v1alpha1.ReadyCondition)).To(
			HaveValue(HaveField("Status", metav1.ConditionTrue)), workers.Status.Message)
		g.Expect(workers.Status.Clusters.Updated).To(BeEquivalentTo(len(fleet.Members)))
	}).Should(Succeed())
	expectKubelets(ctx, kubelet, fleet.Members...)
}

// expectKubelets waits until each cluster has one Node, with that kubelet.
func expectKubelets(ctx context.Context, kubelet string, members ...*localfleet.Member) {
	GinkgoHelper()
	for _, member := range members {
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			nodes := fleettest.NodesOf(ctx, g, member, pool)
			g.Expect(nodes).To(HaveLen(1))
			g.Expect(nodes[0].Status.NodeInfo.KubeletVersion).To(Equal(kubelet))
			g.Expect(fleettest.NodeReady(nodes[0])).To(BeTrue())
		}).Should(Succeed(), member.Name)
	}
}

// expectCanaryFirst compares when the canary had succeeded with when the others got their new Machines.
func expectCanaryFirst(ctx context.Context, canary *localfleet.Member, others ...*localfleet.Member) {
	GinkgoHelper()
	g := NewWithT(GinkgoT())
	proven := recordOf(ctx, g, canary)
	Expect(proven.Phase).To(Equal("Succeeded"))
	for _, member := range others {
		Expect(recordOf(ctx, g, member).Revision).To(Equal(proven.Revision))
		for _, machine := range fleet.MachinesOf(ctx, g, member, pool) {
			Expect(machine.CreationTimestamp.Time).To(BeTemporally(">=", proven.Since.Truncate(time.Second)), member.Name)
		}
	}
}

func deploymentOf(ctx context.Context, g Gomega, member *localfleet.Member) *v1alpha1.MachineDeployment {
	deployment := &v1alpha1.MachineDeployment{}
	g.Expect(fleet.HubClient.Get(ctx, types.NamespacedName{Namespace: member.Name, Name: pool}, deployment)).To(Succeed())
	return deployment
}

func recordOf(ctx context.Context, g Gomega, member *localfleet.Member) (r record) {
	text := deploymentOf(ctx, g, member).Annotations[v1alpha1.FleetRecordAnnotation]
	g.Expect(json.Unmarshal([]byte(text), &r)).To(Succeed(), "%s: %q", member.Name, text)
	return r
}
