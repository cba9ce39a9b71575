package faults

import (
	"context"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("The hub", func() {
	It("should be missed by no Node while its API server is silent, and carry on a scale-down after it", func(ctx SpecContext) {
		deployment := fleet.NewDeployment(ctx, broken, "deaf", 3)
		fleet.ExpectReady(ctx, broken, "deaf", 3)
		seen := fleet.Watch(ctx, broken, "deaf")
		fleet.Scale(ctx, deployment, 2)
		resume := pause(ctx, fleet.Hub, apiServer)
		expectAgentSays(ctx, broken, fleettest.Frozenz{Frozen: true, Reason: v1alpha1.ReasonHubUnreachable})
		expectStanding(ctx, "deaf", 2)
		resumeHub(ctx, resume)
		fleet.ExpectReady(ctx, broken, "deaf", 2)
		seen.Expect(ctx, 3, 1)
	}, SpecTimeout(4*fleettest.Patience))

	It("should reach exactly the wanted number when it is killed in the middle of a scale-down", fleettest.Long, func(ctx SpecContext) {
		deployment := fleet.NewDeployment(ctx, broken, "halfway", 5)
		fleet.ExpectReady(ctx, broken, "halfway", 5)
		seen := fleet.Watch(ctx, broken, "halfway")
		fleet.Scale(ctx, deployment, 2)
		Eventually(ctx, seen.Doomed).WithPolling(time.Millisecond).Should(BeNumerically(">", 0))
		Expect(fleet.HubProcess.Signal(syscall.SIGKILL)).To(Succeed())
		Eventually(fleet.HubProcess.Done()).Should(BeClosed())
		expectHub(ctx)
		fleet.ExpectReady(ctx, broken, "halfway", 2)
		expectStill(ctx, broken, "halfway")
		seen.Expect(ctx, 5, 3)
	}, SpecTimeout(4*fleettest.Patience))
})

// expectStanding asks for a while that every pod and Node of pool which was not ordered to go stays, the Nodes
// Ready, and that these are at least so many.
func expectStanding(ctx context.Context, pool string, atLeast int) {
	GinkgoHelper()
	standing := func(g Gomega, ctx context.Context) []string {
		var names []string
		for _, node := range fleettest.NodesOf(ctx, g, broken, pool) {
			pods := &corev1.PodList{}
			g.Expect(broken.Client.List(ctx, pods, client.MatchingLabels{v1alpha1.MachineNameLabel: node.Name})).To(Succeed())
			// The pod of a Node that is to go may be gone before the Node is.
			for _, pod := range pods.Items {
				if fleettest.NodeReady(node) && node.DeletionTimestamp == nil && pod.DeletionTimestamp == nil {
					names = append(names, string(node.UID), string(pod.UID))
				}
			}
		}
		return names
	}
	before := standing(NewWithT(GinkgoT()), ctx)
	Expect(len(before)).To(BeNumerically(">=", 2*atLeast))
	Consistently(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(standing(g, ctx)).To(ConsistOf(before))
	}).WithTimeout(still).WithPolling(fleettest.Glance).Should(Succeed(), "nothing goes while the hub is silent")
}
