package restored

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("A hub whose API server comes back with nothing in it, under agents that run on", fleettest.Long, func() {
	// Claim: An empty hub deletes nothing and must be acknowledged. Broken: the UID of the Cluster is not compared.
	It("should get nothing deleted, and be acknowledged when it has been set up again", func(ctx SpecContext) {
		fleet.NewDeployment(ctx, busy, "bereft", 2)
		fleet.ExpectReady(ctx, busy, "bereft", 2)
		was := look(ctx, NewWithT(GinkgoT()))
		before := clusterOf(ctx, NewWithT(GinkgoT()), fleet, busy.Name).UID
		agent := busy.Agent

		By("losing all that etcd has")
		stopHub(ctx)
		empty()
		startBare(ctx)
		expectShutOut(ctx, was)

		By("installing what a hub needs, and starting it")
		install(ctx)
		Expect(fleet.StartHubProcess(ctx)).To(Succeed())
		expectShutOut(ctx, was)

		By("letting the clusters join again")
		Expect(fleet.Join(ctx, busy)).To(Succeed())
		Expect(fleet.Join(ctx, idle)).To(Succeed())
		Expect(clusterOf(ctx, NewWithT(GinkgoT()), fleet, busy.Name).UID).NotTo(Equal(before))
		expectStrange(ctx, fleet, busy.Name, v1alpha1.ReasonHubChanged)
		expectAtWork(ctx, fleet, idle.Name) // It has nothing to lose, and continues without a person.
		waiting := fleet.NewDeployment(ctx, busy, "again", 1)
		expectStill(ctx, fleet, was)

		acknowledge(ctx, fleet, busy.Name)
		expectConverged(ctx, fleet, "again", 1)
		stays(ctx, was)
		fleet.Scale(ctx, waiting, 2)
		fleet.ExpectReady(ctx, busy, "again", 2)
		fleet.Scale(ctx, waiting, 1)
		fleet.ExpectReady(ctx, busy, "again", 1)
		stays(ctx, was)
		Expect(fleettest.Running(agent)).To(BeTrue(), "it is the same agent all along")
		sweep(ctx, fleet)
	}, SpecTimeout(6*fleettest.Patience))
})

// empty takes all that the hub's etcd has, while the control plane is stopped.
func empty() {
	GinkgoHelper()
	data := filepath.Join(fleet.Hub.Dir(), "etcd")
	Expect(os.RemoveAll(data)).To(Succeed())
	Expect(os.Mkdir(data, 0o700)).To(Succeed())
}

// startBare starts the hub's control plane, which has nothing of Hollowfleet.
func startBare(ctx context.Context) {
	GinkgoHelper()
	startServers(ctx, &corev1.NamespaceList{})
	Expect(fleet.HubClient.List(ctx, &v1alpha1.ClusterList{})).NotTo(Succeed(), "it has nothing of Hollowfleet")
}

// install does what an administrator does before the hub is started for the first time.
func install(ctx context.Context) {
	GinkgoHelper()
	program, err := testenv.Binary("hub")
	Expect(err).NotTo(HaveOccurred())
	output, err := exec.CommandContext(ctx, program, "install", "--kubeconfig", fleet.Hub.AdminKubeconfig()).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
}

// expectShutOut waits until the agent has frozen, and asks that for a while nothing comes or goes in the cluster. An API
// server that knows the agent's certificate and no right of any user says 403, as one does whose cluster is denied.
func expectShutOut(ctx context.Context, was snapshot) {
	GinkgoHelper()
	shutOut := fleettest.Frozenz{Frozen: true, Reason: v1alpha1.ReasonDenied}
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleettest.AskAgent(ctx, g, busy)).To(Equal(shutOut))
	}).Should(Succeed(), "the agent freezes")
	Consistently(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(look(ctx, g)).To(Equal(was))
		g.Expect(fleettest.AskAgent(ctx, g, busy)).To(Equal(shutOut))
	}).WithTimeout(still).WithPolling(fleettest.Glance).Should(Succeed(), "absence is never an order")
}
