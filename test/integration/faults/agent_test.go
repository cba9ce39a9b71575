package faults

import (
	"context"
	"os"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("An agent", func() {
	It("should be Unknown, with its Machines as Ready as before, when it is silent for longer than the grace period", fleettest.Long, func(ctx SpecContext) {
		deployment := fleet.NewDeployment(ctx, broken, "stopped", 2)
		fleet.ExpectReady(ctx, broken, "stopped", 2)
		seen := fleet.Watch(ctx, broken, "stopped")
		setHeartbeat(ctx, v1alpha1.Heartbeat{PeriodSeconds: 1, GraceSeconds: 4})

		agent := broken.Agent
		Expect(agent.Signal(syscall.SIGSTOP)).To(Succeed())
		DeferCleanup(func() { Expect(agent.Signal(syscall.SIGCONT)).To(Succeed()) })
		expectCondition(ctx, broken, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionUnknown, v1alpha1.ReasonLeaseExpired)
		expectCondition(ctx, broken, v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonAgentSilent)
		expectStill(ctx, broken, "stopped")
		scaleFrozen(ctx, deployment, 1)
		expectStill(ctx, broken, "stopped")
		scaleFrozen(ctx, deployment, 3)

		Expect(agent.Signal(syscall.SIGCONT)).To(Succeed())
		expectCondition(ctx, broken, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionTrue, v1alpha1.ReasonLeaseRenewed)
		fleet.ExpectReady(ctx, broken, "stopped", 3)
		seen.Expect(ctx, 3, 0)
	}, SpecTimeout(4*fleettest.Patience))

	It("should start frozen and delete nothing when it is killed and started again while the hub is silent", func(ctx SpecContext) {
		deployment := fleet.NewDeployment(ctx, broken, "reborn", 2)
		fleet.ExpectReady(ctx, broken, "reborn", 2)
		seen := fleet.Watch(ctx, broken, "reborn")
		resume := pause(ctx, fleet.Hub, apiServer)
		endAgent(broken, syscall.SIGKILL)
		startAgent(ctx, broken)
		expectAgentSays(ctx, broken, fleettest.Frozenz{Frozen: true, Reason: v1alpha1.ReasonStarting})
		expectStanding(ctx, "reborn", 2)
		expectAgentSays(ctx, broken, fleettest.Frozenz{Frozen: true, Reason: v1alpha1.ReasonStarting})

		resumeHub(ctx, resume)
		fleet.Scale(ctx, deployment, 3)
		fleet.ExpectReady(ctx, broken, "reborn", 3)
		seen.Expect(ctx, 3, 0)
	}, SpecTimeout(4*fleettest.Patience))

	It("should leave pod and Node of a Machine that was removed by force, and say so", fleettest.Long, func(ctx SpecContext) {
		machine := newMachine(ctx, "forced-1", "forced")
		fleet.ExpectReady(ctx, broken, "forced", 1)
		seen := fleet.Watch(ctx, broken, "forced")
		endAgent(broken, syscall.SIGTERM)
		DeferCleanup(func(ctx SpecContext) { startAgent(ctx, broken) }, NodeTimeout(fleettest.Patience))
		Expect(fleet.HubClient.Delete(ctx, machine)).To(Succeed())
		removal := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		Expect(client.IgnoreNotFound(fleet.HubClient.Patch(ctx, machine, removal))).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.MachinesOf(ctx, g, broken, "forced")).To(BeEmpty())
		}).Should(Succeed())

		startAgent(ctx, broken)
		Eventually(ctx, func(g Gomega) {
			log, err := os.ReadFile(broken.Agent.LogFile())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(log)).To(MatchRegexp(`Leaving what has no machine on the hub.*instances.*forced-1`))
		}).Should(Succeed(), "the agent reports what it leaves")
		expectHealthy(ctx)
		expectStanding(ctx, "forced", 1)
		Expect(seen.Nodes.Ending()).To(BeEmpty(), "absence is never an order")
		Expect(seen.Pods.Ending()).To(BeEmpty(), "absence is never an order")
	}, SpecTimeout(4*fleettest.Patience))
})

// setHeartbeat changes the heartbeat of the broken cluster for one spec.
func setHeartbeat(ctx context.Context, heartbeat v1alpha1.Heartbeat) {
	GinkgoHelper()
	set := func(ctx context.Context, to v1alpha1.Heartbeat) v1alpha1.Heartbeat {
		GinkgoHelper()
		cluster := get(ctx, NewWithT(GinkgoT()), fleet.HubClient, &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: broken.Name}})
		before := cluster.DeepCopy()
		cluster.Spec.Heartbeat = to
		Expect(fleet.HubClient.Patch(ctx, cluster, client.MergeFrom(before))).To(Succeed())
		return before.Spec.Heartbeat
	}
	before := set(ctx, heartbeat)
	DeferCleanup(func(ctx SpecContext) { set(ctx, before) }, NodeTimeout(fleettest.Patience))
}

// newMachine makes a Machine without a MachineSet. After the spec an administrator removes all that is left of it.
func newMachine(ctx context.Context, name, pool string) *v1alpha1.Machine {
	GinkgoHelper()
	machine := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: broken.Name, Name: name, Labels: map[string]string{fleettest.PoolLabel: pool}},
		Spec: v1alpha1.MachineSpec{ClusterName: broken.Name, MachineTemplateBody: v1alpha1.MachineTemplateBody{
			NodeMetadata:   v1alpha1.NodeMetadata{Labels: map[string]string{fleettest.PoolLabel: pool}},
			ProviderConfig: v1alpha1.ProviderConfig{Value: &runtime.RawExtension{Raw: []byte(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig"}`)}},
		}},
	}
	Expect(fleet.HubClient.Create(ctx, machine)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, machine))).To(Succeed())
		key := metav1.ObjectMeta{Namespace: "hollowfleet", Name: name}
		Expect(client.IgnoreNotFound(broken.Client.Delete(ctx, &corev1.Pod{ObjectMeta: key}))).To(Succeed())
		Eventually(ctx, func(ctx context.Context) error {
			return broken.Client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: name}, &corev1.Pod{})
		}).ShouldNot(Succeed(), "the pod ends")
		Expect(client.IgnoreNotFound(broken.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))).To(Succeed())
		Expect(client.IgnoreNotFound(broken.Client.Delete(ctx, &corev1.Secret{ObjectMeta: key}))).To(Succeed())
	}, NodeTimeout(fleettest.Patience))
	return machine
}
