package restored

import (
	"context"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("A hub that is restored from a backup", func() {
	// Claim: A restored or other hub is acknowledged first. Broken: not broken alone. Also: "should be acknowledged before the instances of another one are worked on, and so should that one again".
	It("should be acknowledged before anything comes or goes for what it says", func(ctx SpecContext) {
		deployment := fleet.NewDeployment(ctx, busy, "workers", 3)
		fleet.ExpectReady(ctx, busy, "workers", 3)
		putBack := backUp(ctx)
		backedUp := machines(ctx, NewWithT(GinkgoT()), fleet)

		By("deleting a Machine and making two since the backup")
		fleet.ExpectReady(ctx, busy, "workers", 3)
		fleet.Scale(ctx, deployment, 2)
		fleet.ExpectReady(ctx, busy, "workers", 2)
		fleet.Scale(ctx, deployment, 4)
		fleet.ExpectReady(ctx, busy, "workers", 4)
		was := look(ctx, NewWithT(GinkgoT()))

		By("restoring the hub")
		stopHub(ctx)
		putBack()
		startHub(ctx)
		finding := expectStrange(ctx, fleet, busy.Name, v1alpha1.ReasonHubRestored)
		expectAtWork(ctx, fleet, idle.Name) // It has nothing to lose, and continues without a person.
		Expect(machines(ctx, NewWithT(GinkgoT()), fleet)).To(Equal(backedUp))
		fleet.Scale(ctx, deployment, 5)
		expectStill(ctx, fleet, was)

		By("killing the agent while it is frozen")
		end(busy.Agent, syscall.SIGKILL)
		Expect(fleet.StartAgent(ctx, busy)).To(Succeed())
		Expect(expectStrange(ctx, fleet, busy.Name, v1alpha1.ReasonHubRestored)).To(Equal(finding))
		expectStill(ctx, fleet, was)

		By("killing the hub and the agent at once, so that the hub hears of the agent first")
		end(busy.Agent, syscall.SIGKILL)
		end(fleet.HubProcess, syscall.SIGKILL)
		Expect(fleet.StartHubProcess(ctx)).To(Succeed())
		Expect(fleet.StartAgent(ctx, busy)).To(Succeed())
		expectStill(ctx, fleet, was)
		Expect(expectStrange(ctx, fleet, busy.Name, v1alpha1.ReasonHubRestored)).To(Equal(finding))

		acknowledge(ctx, fleet, busy.Name)
		expectConverged(ctx, fleet, "workers", 5)
		stays(ctx, was)
		for uid := range backedUp {
			Expect(machines(ctx, NewWithT(GinkgoT()), fleet)).To(HaveKey(uid), "a Machine of the backup was replaced")
		}
		sweep(ctx, fleet)
		fleet.ExpectReady(ctx, busy, "workers", 5)
	}, SpecTimeout(6*fleettest.Patience))
})

var _ = Describe("A hub process that runs on while its API server is restored", fleettest.Long, func() {
	It("should notice, end, and be careful when it is started again", func(ctx SpecContext) {
		deployment := fleet.NewDeployment(ctx, busy, "under", 2)
		fleet.ExpectReady(ctx, busy, "under", 2)
		putBack := backUp(ctx)
		backedUp := machines(ctx, NewWithT(GinkgoT()), fleet)
		fleet.ExpectReady(ctx, busy, "under", 2)
		end(fleet.HubProcess, syscall.SIGTERM)
		running := alone(ctx)
		age(ctx)
		fleet.Scale(ctx, deployment, 3)
		fleet.ExpectReady(ctx, busy, "under", 3)
		was := look(ctx, NewWithT(GinkgoT()))

		By("restoring etcd and starting its API server again, under the hub")
		stopServers(ctx)
		putBack()
		Expect(fleettest.Running(running)).To(BeTrue(), "it waits for its API server")
		startServers(ctx, &v1alpha1.ClusterList{})
		answered := time.Now()
		never := func(context.Context) (bool, error) { return false, nil }
		Expect(running.Wait(ctx, fleettest.Glance, never)).To(MatchError(And(
			ContainSubstring("exit status 1"), ContainSubstring("the API server has gone back to an older state"),
		)))
		GinkgoWriter.Printf("from the answer of the restored API server until the hub has ended: %.1f s\n", time.Since(answered).Seconds())

		By("starting it again, as its Deployment does")
		Expect(fleet.Supervise(ctx)).To(Succeed())
		expectStrange(ctx, fleet, busy.Name, v1alpha1.ReasonHubRestored)
		expectAtWork(ctx, fleet, idle.Name)
		Expect(machines(ctx, NewWithT(GinkgoT()), fleet)).To(Equal(backedUp))
		expectStill(ctx, fleet, was)
		Expect(fleettest.Running(fleet.HubProcess)).To(BeTrue(), "it finds nothing more")

		acknowledge(ctx, fleet, busy.Name)
		expectConverged(ctx, fleet, "under", 2)
		stays(ctx, was)
		sweep(ctx, fleet)
		fleet.ExpectReady(ctx, busy, "under", 2)
	}, SpecTimeout(6*fleettest.Patience))
})

var _ = Describe("A new hub", func() {
	It("should be acknowledged before the instances of another one are worked on, and so should that one again", fleettest.Long, func(ctx SpecContext) {
		fleet.NewDeployment(ctx, busy, "kept", 2)
		fleet.ExpectReady(ctx, busy, "kept", 2)
		was := look(ctx, NewWithT(GinkgoT()))

		By("letting the cluster join an empty hub")
		other := fleettest.Start(ctx, localfleet.Options{Programs: localfleet.Programs{HubArgs: hubArgs}})
		end(busy.Agent, syscall.SIGTERM)
		agent := newcomer(ctx, other)
		expectStrange(ctx, other, busy.Name, v1alpha1.ReasonHubChanged)
		expectStill(ctx, other, was)
		acknowledge(ctx, other, busy.Name)
		expectStill(ctx, other, was)
		fresh := other.NewDeployment(ctx, busy, "fresh", 1)
		other.ExpectReady(ctx, busy, "fresh", 1)
		stays(ctx, was)
		Expect(other.HubClient.Delete(ctx, fresh, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(machines(ctx, g, other)).To(BeEmpty())
			g.Expect(look(ctx, g)).To(Equal(was))
		}).Should(Succeed(), "an order of the acknowledged hub is an order")

		By("going back to the first hub")
		end(agent, syscall.SIGTERM)
		Expect(fleet.StartAgent(ctx, busy)).To(Succeed())
		expectStrange(ctx, fleet, busy.Name, v1alpha1.ReasonHubChanged)
		expectStill(ctx, fleet, was)
		acknowledge(ctx, fleet, busy.Name)
		fleet.ExpectReady(ctx, busy, "kept", 2)
		stays(ctx, was)
	}, SpecTimeout(6*fleettest.Patience))

	It("should be taken for granted where there is nothing to lose", func(ctx SpecContext) {
		cluster := clusterOf(ctx, NewWithT(GinkgoT()), fleet, idle.Name)
		// A hub that could not renew its Lease in time, because the machine is busy, has ended.
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.SuperviseHub(ctx)).To(Succeed())
			_, output := hollow(ctx, fleet, "cluster", "remove", idle.Name, "--yes")
			err := fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(cluster), cluster.DeepCopy())
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), output)
		}).Should(Succeed())
		Expect(fleet.Join(ctx, idle)).To(Succeed())
		expectAtWork(ctx, fleet, idle.Name)
		Expect(clusterOf(ctx, NewWithT(GinkgoT()), fleet, idle.Name).UID).NotTo(Equal(cluster.UID))
	}, SpecTimeout(3*fleettest.Patience))
})

var _ = Describe("A hub that has lost all Machines of a cluster", fleettest.Long, func() {
	It("should be acknowledged before anything else is made there", func(ctx SpecContext) {
		deployment := fleet.NewDeployment(ctx, busy, "lost", 2)
		fleet.ExpectReady(ctx, busy, "lost", 2)
		was := look(ctx, NewWithT(GinkgoT()))

		loseMachines(ctx, deployment)
		expectStrange(ctx, fleet, busy.Name, v1alpha1.ReasonHubEmpty)
		expectStill(ctx, fleet, was)

		acknowledge(ctx, fleet, busy.Name)
		expectStill(ctx, fleet, was)
		deployment = fleet.NewDeployment(ctx, busy, "again", 1)
		fleet.ExpectReady(ctx, busy, "again", 1)
		stays(ctx, was)

		By("losing those too that have come since, as soon as they are there")
		loseMachines(ctx, deployment)
		expectStrange(ctx, fleet, busy.Name, v1alpha1.ReasonHubEmpty)
		acknowledge(ctx, fleet, busy.Name)
		stays(ctx, was)
		sweep(ctx, fleet)
	}, SpecTimeout(6*fleettest.Patience))
})

// loseMachines removes every Machine of busy by force, with all that would recreate them, while neither hub nor agent
// looks.
func loseMachines(ctx context.Context, deployment *v1alpha1.MachineDeployment) {
	GinkgoHelper()
	end(fleet.HubProcess, syscall.SIGKILL)
	Expect(busy.Agent.Signal(syscall.SIGSTOP)).To(Succeed())
	orphaning := client.PropagationPolicy(metav1.DeletePropagationBackground)
	Expect(fleet.HubClient.Delete(ctx, deployment, orphaning)).To(Succeed())
	Expect(fleet.HubClient.DeleteAllOf(ctx, &v1alpha1.MachineSet{}, client.InNamespace(busy.Name), orphaning)).To(Succeed())
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		list := &v1alpha1.MachineList{}
		g.Expect(fleet.HubClient.List(ctx, list, client.InNamespace(busy.Name))).To(Succeed())
		for i := range list.Items {
			bare := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			g.Expect(client.IgnoreNotFound(fleet.HubClient.Patch(ctx, &list.Items[i], bare))).To(Succeed())
			g.Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, &list.Items[i]))).To(Succeed())
		}
		sets := &v1alpha1.MachineSetList{}
		g.Expect(fleet.HubClient.List(ctx, sets, client.InNamespace(busy.Name))).To(Succeed())
		for i := range sets.Items {
			bare := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			g.Expect(client.IgnoreNotFound(fleet.HubClient.Patch(ctx, &sets.Items[i], bare))).To(Succeed())
		}
		g.Expect(list.Items).To(BeEmpty())
		g.Expect(sets.Items).To(BeEmpty())
	}).Should(Succeed())
	Expect(busy.Agent.Signal(syscall.SIGCONT)).To(Succeed())
	Expect(fleet.StartHubProcess(ctx)).To(Succeed())
}

// stays asks that nothing of what was there has gone.
func stays(ctx context.Context, was snapshot) {
	GinkgoHelper()
	now := look(ctx, NewWithT(GinkgoT()))
	for uid, what := range was {
		Expect(now).To(HaveKeyWithValue(uid, what), "%s has gone", what)
	}
}

// expectConverged waits until the pool has so many Machines, all Ready, whatever else is in the cluster.
func expectConverged(ctx context.Context, hub *fleettest.Fleet, pool string, want int) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		all := hub.MachinesOf(ctx, g, busy, pool)
		g.Expect(all).To(HaveLen(want))
		for i := range all {
			g.Expect(fleettest.MachineReady(&all[i])).To(BeTrue(), "Machine %s is Ready", all[i].Name)
		}
	}).Should(Succeed())
}
