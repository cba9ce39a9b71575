package tenancy

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("A simulated cluster", func() {
	It("should join by its host's agent as soon as the hub has made its Cluster, and not after it was removed", func(ctx SpecContext) {
		host, _ := joined(ctx, "host")
		agent := clientFor(host)
		one := simulatedCluster("host", "simulated")
		hub.create(ctx, one)
		Expect(hub.Client.Get(ctx, client.ObjectKeyFromObject(one), one)).To(Succeed())
		expectAskable(ctx, "host", "simulated")
		made := newKey(identity("simulated"))
		csr := hostedRequest("host", "simulated", "simulated")
		csr.Spec.Request = made.request
		Eventually(ctx, func(ctx context.Context) error { return agent.Create(ctx, csr) }).Should(Succeed(), "the role counts")
		Consistently(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(agent.Get(ctx, client.ObjectKeyFromObject(csr), csr)).To(Succeed())
			g.Expect(csr.Status.Conditions).To(BeEmpty())
		}).WithTimeout(still).WithPolling(fleettest.Glance).Should(Succeed(), "there is no Cluster yet")

		By("making its Cluster, as the hub does")
		simulated := cluster("simulated", v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted})
		simulated.Annotations = map[string]string{v1alpha1.SimulatedClusterAnnotation: one.ProofOfSimulation()}
		hub.create(ctx, simulated)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(agent.Get(ctx, client.ObjectKeyFromObject(csr), csr)).To(Succeed())
			g.Expect(csr.Status.Certificate).NotTo(BeEmpty(), "%+v", csr.Status.Conditions)
		}).Should(Succeed(), "the Cluster wakes the request")
		hub.agents["simulated"] = made.config(hub.Config, csr.Status.Certificate)
		hub.expectWork(ctx, "simulated")
		Expect(agent.Delete(ctx, csr)).To(Succeed())
		Expect(agent.List(ctx, &v1alpha1.MachineList{}, client.InNamespace("simulated"))).To(refusedBy(rbac), "its host's agent is not its agent")
		renewed := ask(ctx, hub.agents["simulated"], "simulated")
		hub.receive(ctx, hub.agents["simulated"], "simulated", renewed)

		By("removing the SimulatedCluster")
		Expect(hub.Client.Delete(ctx, one)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) error {
			return decision(ctx, agent, hostedRequest("host", "simulated", "simulated"))
		}).
			Should(And(refusedBy(approver), MatchError(ContainSubstring("ClusterDeleting"))), "it is being removed")
		Expect(merge(one, `{"metadata":{"finalizers":null}}`)(ctx, clientFor(hub.Config))).To(Succeed())
		Eventually(ctx, func(ctx context.Context) bool {
			return apierrors.IsForbidden(agent.Get(ctx, client.ObjectKey{Name: certrequest.NameOfHostedAgent("host", "simulated")}, &certificatesv1.CertificateSigningRequest{}))
		}).Should(BeTrue(), "its host's agent may not ask for it any more")
		Expect(agent.Create(ctx, hostedRequest("host", "simulated", "simulated"))).To(refusedBy(policy))
	}, NodeTimeout(specTimeout))
})
