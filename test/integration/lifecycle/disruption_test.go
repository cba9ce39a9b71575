package lifecycle

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// disruption lets the Nodes of a MachineDeployment be not ready.
func disruption(ctx context.Context, name string, lasts time.Duration, changes ...func(*v1alpha1.NodeDisruptionSpec)) *v1alpha1.NodeDisruption {
	GinkgoHelper()
	made := &v1alpha1.NodeDisruption{ObjectMeta: metav1.ObjectMeta{Name: name}}
	made.Spec.ClusterSelector = firstCluster
	made.Spec.Target.MachineDeployment = name
	made.Spec.Faults = []disrupt.Fault{{Type: disrupt.NotReady}}
	made.Spec.Timing.Duration = metav1.Duration{Duration: lasts}
	for _, change := range changes {
		change(&made.Spec)
	}
	Expect(fleet.HubClient.Create(ctx, made)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, made))).To(Succeed())
	})
	return made
}

// expectNodes waits until the Nodes of a MachineDeployment are all Ready, or none is.
func expectNodes(ctx context.Context, pool string, ready bool) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		nodes := fleettest.NodesOf(ctx, g, fleet.Members[0], pool)
		g.Expect(nodes).NotTo(BeEmpty())
		for _, node := range nodes {
			g.Expect(fleettest.NodeReady(node)).To(Equal(ready), node.Name)
		}
	}).Should(Succeed(), "the Nodes of %s are Ready: %t", pool, ready)
}

var _ = Describe("A NodeDisruption", func() {
	It("should break Nodes, and restore them when it is deleted", func(ctx SpecContext) {
		member := fleet.Members[0]
		fleet.NewDeployment(ctx, member, "disrupted", 1)
		fleet.NewDeployment(ctx, member, "spared", 1)
		fleet.ExpectReady(ctx, member, "disrupted", 1)
		fleet.ExpectReady(ctx, member, "spared", 1)
		made := disruption(ctx, "disrupted", time.Hour)
		expectNodes(ctx, "disrupted", false)
		expectNodes(ctx, "spared", true)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(made), made)).To(Succeed())
			g.Expect(made.Status).To(And(HaveField("Clusters", BeEquivalentTo(1)), HaveField("Injected", BeEquivalentTo(1)), HaveField("Observed", BeEquivalentTo(1))))
		}).Should(Succeed(), "the hub sums up what the agent says")
		Expect(fleet.HubClient.Delete(ctx, made)).To(Succeed())
		expectNodes(ctx, "disrupted", true)
	}, SpecTimeout(4*fleettest.Patience))

	It("should end by itself while the agent is away, and be told when it is back", func(ctx SpecContext) {
		testenv.Long(GinkgoTB())
		member := fleet.Members[0]
		fleet.NewDeployment(ctx, member, "alone", 1)
		fleet.ExpectReady(ctx, member, "alone", 1)
		made := disruption(ctx, "alone", 40*time.Second)
		expectNodes(ctx, "alone", false)
		mend, err := fleet.Break(ctx, fleettest.Fault{Part: fleettest.Agent, Way: fleettest.Kill}, member)
		Expect(err).NotTo(HaveOccurred())
		expectNodes(ctx, "alone", true)
		Expect(mend(ctx)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.Supervise(ctx)).To(Succeed())
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(made), made)).To(Succeed())
			g.Expect(made.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionCompleted), HaveField("Injected", BeEquivalentTo(1))))
		}).Should(Succeed(), "the run is over")
	}, SpecTimeout(6*fleettest.Patience))
})

var _ = Describe("A NodeDisruption that is in progress", func() {
	BeforeEach(func() { testenv.Long(GinkgoTB()) })

	// Claim: Pausing restores real Nodes. Broken: a paused run stays in the plans.
	It("should restore Nodes while it is paused, and continue where it would be", func(ctx SpecContext) {
		member := fleet.Members[0]
		fleet.NewDeployment(ctx, member, "paused", 1)
		fleet.ExpectReady(ctx, member, "paused", 1)
		made := disruption(ctx, "paused", time.Hour)
		expectNodes(ctx, "paused", false)
		for _, paused := range []bool{true, false} {
			change := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"paused":%t}}`, paused))
			Expect(fleet.HubClient.Patch(ctx, made, change)).To(Succeed())
			expectNodes(ctx, "paused", paused)
		}
	}, SpecTimeout(5*fleettest.Patience))

	// Claim: A Reboot changes the boot ID. Broken: no pod counts as evicted; the boot ID was not broken.
	It("should start a Node again, and pass when its pods were evicted in time", func(ctx SpecContext) {
		member := fleet.Members[0]
		fleet.NewDeployment(ctx, member, "reboots", 1)
		fleet.ExpectReady(ctx, member, "reboots", 1)
		node := &fleettest.NodesOf(ctx, Default, member, "reboots")[0]
		before := node.Status.NodeInfo.BootID
		pod := tolerant("reboots", node.Name)
		Expect(member.Client.Create(ctx, pod)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(member.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
		}).Should(Succeed())
		made := disruption(ctx, "reboots", 150*time.Second, func(spec *v1alpha1.NodeDisruptionSpec) {
			spec.Faults = []disrupt.Fault{{Type: disrupt.Reboot}}
			spec.Expectations = []v1alpha1.DisruptionExpectation{{
				Type: v1alpha1.ExpectPodsEvicted, Within: metav1.Duration{Duration: 2 * time.Minute},
			}}
		})
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(made), made)).To(Succeed())
			g.Expect(made.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionCompleted), HaveField("Verdict", v1alpha1.DisruptionPassed)))
		}).WithTimeout(4*fleettest.Patience).Should(Succeed(), "its pod was evicted")
		Expect(member.Client.Get(ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
		Expect(node.Status.NodeInfo.BootID).NotTo(Equal(before), "it was started again")
	}, SpecTimeout(8*fleettest.Patience))

	// Claim: A schedule repeats when done. Broken: the schedule is looked at once only.
	It("should start again by its schedule, and not while it is in progress", func(ctx SpecContext) {
		member := fleet.Members[0]
		fleet.NewDeployment(ctx, member, "scheduled", 1)
		fleet.ExpectReady(ctx, member, "scheduled", 1)
		made := disruption(ctx, "scheduled", 20*time.Second, func(spec *v1alpha1.NodeDisruptionSpec) { spec.Schedule = "* * * * *" })
		times := map[string]bool{}
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(made), made)).To(Succeed())
			runs := &v1alpha1.NodeDisruptionRunList{}
			g.Expect(fleet.HubClient.List(ctx, runs, client.MatchingLabels{v1alpha1.NodeDisruptionNameLabel: made.Name})).To(Succeed())
			g.Expect(len(runs.Items)).To(BeNumerically("<=", 2), "those of the time before go when the next ones start")
			if last := made.Status.LastScheduleTime; last != nil && made.Status.Recovered == 1 {
				times[last.String()] = true
			}
			g.Expect(times).To(HaveLen(2), "twice the Node has failed and is healthy again")
		}).WithTimeout(4 * fleettest.Patience).Should(Succeed())
	}, SpecTimeout(8*fleettest.Patience))
})

// tolerant is a pod on a Node that may stay there for five seconds when it is not reachable.
func tolerant(name, node string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	pod.Spec.NodeName = node
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/main"}}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](5),
		})
	}
	return pod
}
