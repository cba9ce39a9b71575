package faults

import (
	"context"
	"fmt"
	"slices"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("A Node that is lost while its agent is cut off", fleettest.Long, func() {
	// Claim: A Node lost during a silence counts as lost before the hub continues. Broken: the hub thaws with the first renewal of the Lease, whatever the agent has found.
	It("should count as lost before the hub continues with a rolling update", func(ctx SpecContext) {
		skipShared()
		const pool, old, never, atOnce = "ailing", 2, 1200, 1
		deployment := fleet.NewDeployment(ctx, broken, pool, old, func(d *v1alpha1.MachineDeployment) {
			d.Spec.Strategy = v1alpha1.MachineDeploymentStrategy{
				Type: v1alpha1.RollingUpdate,
				RollingUpdate: &v1alpha1.RollingUpdateBounds{
					MaxSurge: ptr.To(intstr.FromInt32(1)), MaxUnavailable: ptr.To(intstr.FromInt32(0)),
				},
			}
		})
		var olds []string
		for _, machine := range fleet.ExpectReady(ctx, broken, pool, old) {
			olds = append(olds, machine.Name)
		}
		slices.Sort(olds)
		seen := fleet.Watch(ctx, broken, pool)
		// None may be missing, so no old Machine may go before a new one is available.
		seen.Machines.Hold(fleettest.Bound{Least: old, Most: old + 1})
		edit := func(patch string) {
			GinkgoHelper()
			Expect(fleet.HubClient.Patch(ctx, deployment, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
		}
		setMinReady := func(seconds int) { edit(fmt.Sprintf(`{"spec":{"minReadySeconds":%d}}`, seconds)) }

		By("beginning an update whose first new Machine is Ready, and not available for a long time")
		setMinReady(never)
		edit(`{"spec":{"template":{"spec":{"versions":{"kubelet":"v1.36.1"}}}}}`)
		ill := theNewOne(fleet.ExpectReady(ctx, broken, pool, old+1), olds)

		By("cutting the agent off, and losing the Node of that Machine")
		mend, err := fleet.Break(ctx, fleettest.Fault{Way: fleettest.Refuse, Part: fleettest.Agent}, broken)
		Expect(err).NotTo(HaveOccurred())
		mended := false
		heal := func(ctx context.Context) {
			GinkgoHelper()
			if !mended {
				Expect(mend(ctx)).To(Succeed())
				mended = true
			}
		}
		DeferCleanup(heal)
		expectCondition(ctx, broken, v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonAgentSilent)
		expectAgentSays(ctx, broken, fleettest.Frozenz{Frozen: true, Reason: v1alpha1.ReasonHubUnreachable})
		revive := loseNode(ctx, broken, ill)
		// From now on the hub has no reason of its own to wait.
		setMinReady(atOnce)
		expectStill(ctx, broken, pool)
		Expect(seen.Machines.Ending()).To(BeEmpty(), "frozen means frozen")

		By("mending the cut")
		heal(ctx)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleettest.MachineReady(get(ctx, g, fleet.HubClient, &v1alpha1.Machine{
				ObjectMeta: metav1.ObjectMeta{Namespace: broken.Name, Name: ill},
			}))).To(BeFalse())
		}).Should(Succeed(), "the hub is told of the loss")
		seen.Machines.CatchUp(ctx)
		// The journal forgets nothing, so this is about every moment since the mend.
		Expect(seen.Machines.Ending()).To(BeEmpty(), "no old Machine goes before the hub is told that the new one is lost")
		expectCondition(ctx, broken, v1alpha1.FrozenCondition, metav1.ConditionFalse, v1alpha1.ReasonNotFrozen)
		expectStill(ctx, broken, pool)
		Expect(seen.Machines.Ending()).To(BeEmpty(), "no old Machine goes for a new one that is lost")

		By("letting the Node come back")
		revive(ctx)
		Eventually(ctx, seen.Machines.Ending).Should(Equal(olds), "the update continues")
		fleet.ExpectReady(ctx, broken, pool, old)
		seen.Machines.CatchUp(ctx)
		Expect(seen.Machines.Verdict()).To(ConsistOf(ContainSubstring(ill+" has lost its readiness")), "nothing else is wrong")
	}, SpecTimeout(6*fleettest.Patience))
})

// theNewOne is the name of the one Machine that is not among the old.
func theNewOne(machines []v1alpha1.Machine, olds []string) string {
	GinkgoHelper()
	var fresh []string
	for _, machine := range machines {
		if !slices.Contains(olds, machine.Name) {
			fresh = append(fresh, machine.Name)
		}
	}
	Expect(fresh).To(HaveLen(1))
	return fresh[0]
}

// loseNode stops the hollow node of a Machine and says in its name what a kubelet says that goes down: no test has to
// wait until the Node is missed. revive lets it continue, and say by itself that it is Ready.
func loseNode(ctx context.Context, member *localfleet.Member, name string) (revive func(context.Context)) {
	GinkgoHelper()
	pid, err := localfleet.HollowNodeProcess(fleettest.PodOf(ctx, NewWithT(GinkgoT()), member, name).Name)
	Expect(err).NotTo(HaveOccurred())
	Expect(syscall.Kill(pid, syscall.SIGSTOP)).To(Succeed())
	stopped := true
	revive = func(context.Context) {
		GinkgoHelper()
		if stopped {
			Expect(syscall.Kill(pid, syscall.SIGCONT)).To(Succeed())
			stopped = false
		}
	}
	DeferCleanup(revive)

	config, err := member.Cluster.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + name, Groups: []string{"system:nodes"}}
	kubelet, err := client.New(config, client.Options{Scheme: member.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	// What the kubelet sent just before it was stopped may arrive still.
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		node := get(ctx, g, member.Client, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		before := node.DeepCopy()
		for i := range node.Status.Conditions {
			if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				c.Status, c.Reason, c.Message = corev1.ConditionFalse, "KubeletNotReady", "the node is shutting down"
				c.LastTransitionTime = metav1.Now()
			}
		}
		g.Expect(kubelet.Status().Patch(ctx, node, client.MergeFrom(before))).To(Succeed())
	}).Should(Succeed(), "Node %s is lost", name)
	return revive
}
