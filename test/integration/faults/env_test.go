package faults

import (
	"context"
	"fmt"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

const (
	// freezeAfter is that of the agents: short, for the suite's sake, and longer than the blips that must not freeze.
	freezeAfter = 6 * time.Second
	// still is how long nothing may happen where nothing must.
	still = 6 * time.Second
	// blip is shorter than freezeAfter, also with the time that passes between two probes.
	blip = 2 * time.Second

	apiServer = "kube-apiserver"
)

// pause suspends a component with SIGSTOP until the returned function is called, or the spec ends.
func pause(ctx context.Context, cluster *process.Cluster, component string) (resume func(context.Context)) {
	GinkgoHelper()
	Expect(cluster.Component(ctx, "pause", component)).To(Succeed())
	paused := true
	resume = func(ctx context.Context) {
		GinkgoHelper()
		if paused {
			Expect(cluster.Component(ctx, "resume", component)).To(Succeed())
			paused = false
		}
	}
	DeferCleanup(resume)
	return resume
}

// resumeHub lets the hub's API server continue and waits until a hub leads again. One that lost its lease meanwhile
// ends, as it should, and is started again as its Deployment would do.
func resumeHub(ctx context.Context, resume func(context.Context)) {
	GinkgoHelper()
	resume(ctx)
	expectHub(ctx)
}

// expectHub waits until a hub leads, and starts another one if it has ended. It leads if it renews twice after the call: the
// first one may be what an API server that was stopped still carries out for a hub that has given up, and to give the
// lease up is written like a renewal.
func expectHub(ctx context.Context) {
	GinkgoHelper()
	called := time.Now()
	first, lease := coordinationv1.LeaseSpec{}, &coordinationv1.Lease{}
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleet.SuperviseHub(ctx)).To(Succeed())
		g.Expect(fleet.HubClient.Get(ctx, client.ObjectKey{Namespace: "hollowfleet-system", Name: "hollowfleet-hub"}, lease)).To(Succeed())
		g.Expect(lease.Spec.RenewTime).NotTo(BeNil())
		g.Expect(lease.Spec.RenewTime.Time).To(BeTemporally(">", called))
		if !ptr.Equal(first.HolderIdentity, lease.Spec.HolderIdentity) {
			first = *lease.Spec.DeepCopy()
		}
		g.Expect(lease.Spec.RenewTime.Time).To(BeTemporally(">", first.RenewTime.Time), "it renews once more")
	}).Should(Succeed(), "a hub renews its lease")
}

// endAgent ends the agent of member with a signal.
func endAgent(member *localfleet.Member, signal syscall.Signal) {
	GinkgoHelper()
	Expect(member.Agent.Signal(signal)).To(Succeed())
	Eventually(member.Agent.Done()).Should(BeClosed())
}

// startAgent starts the agent of member if it has ended.
func startAgent(ctx context.Context, member *localfleet.Member) {
	GinkgoHelper()
	select {
	case <-member.Agent.Done():
		Expect(fleet.StartAgent(ctx, member)).To(Succeed())
	default:
	}
}

func get[T client.Object](ctx context.Context, g Gomega, c client.Client, object T) T {
	g.Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	return object
}

func conditionOf(ctx context.Context, g Gomega, member *localfleet.Member, conditionType string) metav1.Condition {
	cluster := get(ctx, g, fleet.HubClient, &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: member.Name}})
	condition := meta.FindStatusCondition(cluster.Status.Conditions, conditionType)
	g.Expect(condition).NotTo(BeNil(), conditionType)
	return *condition
}

// expectCondition waits until the Cluster of member has a condition with that status and reason.
func expectCondition(ctx context.Context, member *localfleet.Member, conditionType string, status metav1.ConditionStatus, reason string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleet.SuperviseHub(ctx)).To(Succeed())
		condition := conditionOf(ctx, g, member, conditionType)
		g.Expect(condition.Status).To(Equal(status), "%+v", condition)
		g.Expect(condition.Reason).To(Equal(reason), "%+v", condition)
	}).Should(Succeed(), "condition %s of Cluster %s", conditionType, member.Name)
}

// expectHealthy waits until hub and agents are at work in every cluster.
func expectHealthy(ctx context.Context) {
	GinkgoHelper()
	expectHub(ctx)
	for _, member := range fleet.Members {
		expectCondition(ctx, member, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionTrue, v1alpha1.ReasonLeaseRenewed)
		expectCondition(ctx, member, v1alpha1.ClusterAgentFrozenCondition, metav1.ConditionFalse, v1alpha1.ReasonNotFrozen)
		expectCondition(ctx, member, v1alpha1.FrozenCondition, metav1.ConditionFalse, v1alpha1.ReasonNotFrozen)
		expectCondition(ctx, member, v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
	}
}

// expectStill asks that for a while no Machine of pool comes, goes, or loses its readiness.
func expectStill(ctx context.Context, member *localfleet.Member, pool string) {
	GinkgoHelper()
	look := func(g Gomega, ctx context.Context) map[types.UID]string {
		states := map[types.UID]string{}
		for _, machine := range fleet.MachinesOf(ctx, g, member, pool) {
			ready := meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition)
			states[machine.UID] = fmt.Sprintf("%s deleted=%t ready=%t", machine.Name, machine.DeletionTimestamp != nil, ready)
		}
		return states
	}
	before := look(NewWithT(GinkgoT()), ctx)
	Consistently(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(look(g, ctx)).To(Equal(before))
	}).WithTimeout(still).WithPolling(fleettest.Glance).Should(Succeed(), "the Machines of %s/%s stay as they are", member.Name, pool)
}

// scaleFrozen asks for another number of Machines and waits until the hub has taken notice.
func scaleFrozen(ctx context.Context, deployment *v1alpha1.MachineDeployment, replicas int) {
	GinkgoHelper()
	fleet.Scale(ctx, deployment, replicas)
	generation := deployment.Generation
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleet.SuperviseHub(ctx)).To(Succeed())
		seen := get(ctx, g, fleet.HubClient, deployment.DeepCopy())
		g.Expect(seen.Status.ObservedGeneration).To(BeNumerically(">=", generation))
		g.Expect(meta.IsStatusConditionTrue(seen.Status.Conditions, v1alpha1.FrozenCondition)).To(BeTrue())
	}).Should(Succeed(), "the hub observes also what is frozen")
}

func expectAgentSays(ctx context.Context, member *localfleet.Member, want fleettest.Frozenz) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleettest.AskAgent(ctx, g, member)).To(Equal(want))
	}).Should(Succeed(), "the agent of %s says that it is %+v", member.Name, want)
}
