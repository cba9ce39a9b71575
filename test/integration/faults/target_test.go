package faults

import (
	"context"
	"slices"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("A workload cluster's API server", func() {
	It("should freeze its cluster alone when it is silent for longer than --freeze-after", func(ctx SpecContext) {
		skipShared()
		deployment := fleet.NewDeployment(ctx, broken, "silent", 2)
		undisturbed := fleet.NewDeployment(ctx, other, "silent", 1)
		fleet.ExpectReady(ctx, broken, "silent", 2)
		fleet.ExpectReady(ctx, other, "silent", 1)
		seen := fleet.Watch(ctx, broken, "silent")

		resume := pause(ctx, broken.Cluster, apiServer)
		expectCondition(ctx, broken, v1alpha1.ClusterTargetReachableCondition, metav1.ConditionFalse, v1alpha1.ReasonUnreachable)
		expectCondition(ctx, broken, v1alpha1.ClusterAgentFrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonTargetUnreachable)
		expectCondition(ctx, broken, v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonTargetUnreachable)
		scaleFrozen(ctx, deployment, 4)
		expectStill(ctx, broken, "silent")
		scaleFrozen(ctx, deployment, 1)
		expectStill(ctx, broken, "silent")
		fleet.Scale(ctx, undisturbed, 2)
		fleet.ExpectReady(ctx, other, "silent", 2)
		scaleFrozen(ctx, deployment, 3)

		resume(ctx)
		fleet.ExpectReady(ctx, broken, "silent", 3)
		expectCondition(ctx, broken, v1alpha1.FrozenCondition, metav1.ConditionFalse, v1alpha1.ReasonNotFrozen)
		seen.Expect(ctx, 3, 0)
	}, SpecTimeout(4*fleettest.Patience))

	It("should leave its Machines marked as stale when the agent is killed and started again meanwhile", fleettest.Long, func(ctx SpecContext) {
		fleet.NewDeployment(ctx, broken, "marked", 2)
		fleet.ExpectReady(ctx, broken, "marked", 2)
		seen := fleet.Watch(ctx, broken, "marked")
		stale := func(g Gomega, ctx context.Context) (marked, ready int) {
			for _, machine := range fleet.MachinesOf(ctx, g, broken, "marked") {
				if meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.MachineStaleCondition) {
					marked++
				}
				if meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition) {
					ready++
				}
			}
			return marked, ready
		}
		expectMarked := func(g Gomega, ctx context.Context, want int) {
			marked, ready := stale(g, ctx)
			g.Expect(marked).To(Equal(want), "Machines that are marked")
			g.Expect(ready).To(Equal(2), "readiness is what was known last")
		}

		resume := breakTarget(ctx, fleettest.Stop, fleettest.TargetServer)
		expectCondition(ctx, broken, v1alpha1.ClusterTargetReachableCondition, metav1.ConditionFalse, v1alpha1.ReasonUnreachable)
		Eventually(ctx, expectMarked).WithArguments(2).Should(Succeed())
		endAgent(broken, syscall.SIGKILL)
		startAgent(ctx, broken)
		expectCondition(ctx, broken, v1alpha1.ClusterAgentFrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonStarting)
		Consistently(ctx, func(g Gomega, ctx context.Context) {
			expectMarked(g, ctx, 2)
			condition := conditionOf(ctx, g, broken, v1alpha1.ClusterTargetReachableCondition)
			g.Expect(condition.Status).To(Equal(metav1.ConditionFalse), "a crash of the agent is no news of its target: %+v", condition)
		}).WithTimeout(freezeAfter+still).WithPolling(fleettest.Glance).Should(Succeed(), "the target is as dead as before")

		resume(ctx)
		Eventually(ctx, expectMarked).WithArguments(0).Should(Succeed(), "the thaw takes the markers off")
		seen.Expect(ctx, 2, 0)
	}, SpecTimeout(4*fleettest.Patience))

	It("should not freeze its cluster with two blips shorter than --freeze-after", fleettest.Long, func(ctx SpecContext) {
		fleet.NewDeployment(ctx, broken, "blips", 1)
		fleet.ExpectReady(ctx, broken, "blips", 1)
		expectHealthy(ctx)
		seen := fleet.Watch(ctx, broken, "blips")
		before := conditionOf(ctx, NewWithT(GinkgoT()), broken, v1alpha1.ClusterAgentFrozenCondition)

		ready, err := broken.Cluster.Ready()
		Expect(err).NotTo(HaveOccurred())
		pid := ready.Components[apiServer].PID
		for range 2 {
			// By the process ID, because the simcluster program takes its time.
			Expect(syscall.Kill(pid, syscall.SIGSTOP)).To(Succeed())
			DeferCleanup(func() error { return syscall.Kill(pid, syscall.SIGCONT) })
			thawedFor(ctx, blip)
			Expect(syscall.Kill(pid, syscall.SIGCONT)).To(Succeed())
			thawedFor(ctx, blip)
		}
		thawedFor(ctx, freezeAfter)
		after := conditionOf(ctx, NewWithT(GinkgoT()), broken, v1alpha1.ClusterAgentFrozenCondition)
		Expect(after).To(Equal(before), "the agent has not been frozen in between")
		seen.Expect(ctx, 1, 0)
	}, SpecTimeout(3*fleettest.Patience))

	It("should lose nothing when its etcd is killed", fleettest.Long, func(ctx SpecContext) {
		deployment := fleet.NewDeployment(ctx, broken, "etcd", 2)
		fleet.ExpectReady(ctx, broken, "etcd", 2)
		seen := fleet.Watch(ctx, broken, "etcd")
		breakTarget(ctx, fleettest.Kill, fleettest.TargetEtcd)
		fleet.Scale(ctx, deployment, 4)
		fleet.ExpectReady(ctx, broken, "etcd", 4)
		fleet.Scale(ctx, deployment, 1)
		breakTarget(ctx, fleettest.Kill, fleettest.TargetEtcd)
		fleet.ExpectReady(ctx, broken, "etcd", 1)
		seen.Expect(ctx, 4, 3)
	}, SpecTimeout(4*fleettest.Patience))

	It("should keep pod and Node of a deleted Machine while its cluster is frozen, and lose them after the thaw", fleettest.Long, func(ctx SpecContext) {
		fleet.NewDeployment(ctx, broken, "ordered", 1)
		machine := fleet.ExpectReady(ctx, broken, "ordered", 1)[0]
		seen := fleet.Watch(ctx, broken, "ordered")

		restore := forbidProbe(ctx)
		expectCondition(ctx, broken, v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonTargetUnreachable)
		Expect(fleet.HubClient.Delete(ctx, &machine)).To(Succeed())
		Consistently(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(get(ctx, g, fleet.HubClient, machine.DeepCopy()).DeletionTimestamp).NotTo(BeNil())
			g.Expect(fleettest.PodOf(ctx, g, broken, machine.Name).DeletionTimestamp).To(BeNil())
			nodes := fleettest.NodesOf(ctx, g, broken, "ordered")
			g.Expect(nodes).To(HaveLen(1))
			g.Expect(fleettest.NodeReady(nodes[0])).To(BeTrue())
			g.Expect(fleet.MachinesOf(ctx, g, broken, "ordered")).To(HaveLen(1), "nothing is made instead")
		}).WithTimeout(still).WithPolling(fleettest.Glance).Should(Succeed(), "frozen means frozen")

		restore(ctx)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.SuperviseHub(ctx)).To(Succeed())
			for _, left := range fleet.MachinesOf(ctx, g, broken, "ordered") {
				g.Expect(left.UID).NotTo(Equal(machine.UID))
			}
		}).Should(Succeed(), "the order is carried out after the thaw")
		fleet.ExpectReady(ctx, broken, "ordered", 1)
		seen.Expect(ctx, 2, 1)
	}, SpecTimeout(4*fleettest.Patience))
})

// breakTarget breaks a part of the broken cluster until the returned function is called, or the spec ends.
func breakTarget(ctx context.Context, way fleettest.Way, part fleettest.Part) (mend func(context.Context)) {
	GinkgoHelper()
	end, err := fleet.Break(ctx, fleettest.Fault{Way: way, Part: part}, broken)
	Expect(err).NotTo(HaveOccurred())
	mend = func(ctx context.Context) {
		GinkgoHelper()
		if end != nil {
			Expect(end(ctx)).To(Succeed())
			end = nil
		}
	}
	DeferCleanup(mend)
	return mend
}

// thawedFor asks for a while that the agent does not say it is frozen.
func thawedFor(ctx context.Context, duration time.Duration) {
	GinkgoHelper()
	Consistently(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleettest.AskAgent(ctx, g, broken)).To(Equal(fleettest.Frozenz{Reason: v1alpha1.ReasonNotFrozen}))
	}).WithTimeout(duration).WithPolling(fleettest.Glance).Should(Succeed())
}

// probeRights are the roles each of which gives the right that the agent's probe needs.
var probeRights = []string{"rbac/agent-workload", "rbac/agent-load-tests"}

// forbidProbe takes away the one right that the agent's probe needs, so that the agent freezes while it could
// still delete everything, and while the cluster can be watched.
func forbidProbe(ctx context.Context) (restore func(context.Context)) {
	GinkgoHelper()
	restore = func(ctx context.Context) {
		GinkgoHelper()
		for _, dir := range probeRights {
			Expect(config.Apply(ctx, broken.Client, config.RBAC, dir)).To(Succeed())
		}
	}
	DeferCleanup(restore)
	for _, dir := range probeRights {
		role := get(ctx, NewWithT(GinkgoT()), broken.Client, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: roleIn(dir)}})
		before := role.DeepCopy()
		role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Equal(rule.Resources, []string{"namespaces"}) })
		Expect(role.Rules).To(HaveLen(len(before.Rules)-1), "%s", dir)
		Expect(broken.Client.Patch(ctx, role, client.MergeFrom(before))).To(Succeed())
	}
	return restore
}

// roleIn returns the name of the ClusterRole in a directory of config.
func roleIn(dir string) string {
	GinkgoHelper()
	objects, err := config.Read(config.RBAC, dir)
	Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		if object.GetKind() == "ClusterRole" {
			return object.GetName()
		}
	}
	Fail(dir + " has no ClusterRole")
	return ""
}
