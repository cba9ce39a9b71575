package joining

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/joining"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("A fresh agent", func() {
	It("should join and work within seconds of its start", func(ctx SpecContext) {
		a := newAgent(ctx, two, "fresh", "fresh")
		a.join(ctx, joining.AcceptNow)
		began := time.Now()
		a.start()
		a.expectThawed(ctx)
		report("from the start of a fresh agent until it works: %.1f s (the target is 10 s on a quiet machine with 2 cores)", time.Since(began).Seconds())
		expectWorking(ctx, a.cluster)

		By("starting again with what it has stored, without the kubeconfig that it joined with")
		end(a.process, syscall.SIGTERM)
		Expect(os.Remove(a.bootstrap)).To(Succeed())
		began = time.Now()
		a.start()
		a.expectThawed(ctx)
		report("from the start of an agent that has joined before until it works: %.1f s", time.Since(began).Seconds())
	}, SpecTimeout(2*fleettest.Patience))

	It("should wait for its acceptance, say so, and continue when it comes", fleettest.Long, func(ctx SpecContext) {
		a := newAgent(ctx, two, "asking", "asking")
		a.join(ctx, joining.AcceptManual)
		a.start()
		for _, path := range []string{"/readyz", "/frozenz"} {
			a.expectSays(ctx, path, "acceptance: Cluster asking is Pending; accept it with 'kubectl hollow cluster accept asking'")
		}
		began := time.Now()
		setAcceptance(ctx, a.cluster, v1alpha1.AcceptanceAccepted)
		a.expectThawed(ctx)
		report("from the acceptance of a waiting agent until it works: %.1f s", time.Since(began).Seconds())
		expectWorking(ctx, a.cluster)
	}, SpecTimeout(2*fleettest.Patience))

	It("should say that it is denied, and join when that is taken back", fleettest.Long, func(ctx SpecContext) {
		a := newAgent(ctx, two, "unwanted", "unwanted")
		a.join(ctx, joining.AcceptManual)
		a.start()
		a.expectSays(ctx, "/readyz", "acceptance: ")
		setAcceptance(ctx, a.cluster, v1alpha1.AcceptanceDenied)
		a.expectSays(ctx, "/readyz", "denied")
		setAcceptance(ctx, a.cluster, v1alpha1.AcceptanceAccepted)
		a.expectThawed(ctx)
	}, SpecTimeout(3*fleettest.Patience))

	It("should get nothing with a token for another cluster", func(ctx SpecContext) {
		owner := newAgent(ctx, two, "owner", "owner")
		owner.join(ctx, joining.AcceptNow)
		thief := newAgent(ctx, two, "thief", "thief")
		thief.join(ctx, joining.AcceptNow)
		content, err := os.ReadFile(owner.bootstrap)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(thief.bootstrap, content, 0o600)).To(Succeed())
		thief.start()
		thief.expectSays(ctx, "/readyz", "is not for Cluster thief, or that Cluster is denied or does not exist")
		Expect(fleet.HubClient.Get(ctx, client.ObjectKey{Name: v1alpha1.AgentRequestPrefix + "thief"}, &certificatesv1.CertificateSigningRequest{})).NotTo(Succeed())
		thief.join(ctx, joining.AcceptNow)
		thief.expectThawed(ctx)
	}, SpecTimeout(2*fleettest.Patience))

	It("should join although hub and API server are killed in the middle of it", fleettest.Long, func(ctx SpecContext) {
		a := newAgent(ctx, two, "patient", "patient")
		a.join(ctx, joining.AcceptManual)
		a.start()
		a.expectSays(ctx, "/readyz", "acceptance: ")
		end(fleet.HubProcess, syscall.SIGKILL)
		setAcceptance(ctx, a.cluster, v1alpha1.AcceptanceAccepted)
		a.expectSays(ctx, "/readyz", "approval of CertificateSigningRequest hollowfleet-agent-patient by the hub")
		Expect(fleet.Hub.Component(ctx, "stop", "kube-apiserver")).To(Succeed())
		a.expectSays(ctx, "/readyz", "connection refused")
		Expect(fleet.Hub.Component(ctx, "start", "kube-apiserver")).To(Succeed())
		Eventually(ctx, func(ctx context.Context) error {
			return fleet.HubClient.Get(ctx, client.ObjectKey{Name: a.cluster}, &v1alpha1.Cluster{})
		}).Should(Succeed())
		Expect(fleet.StartHubProcess(ctx)).To(Succeed())
		a.expectThawed(ctx)
		for _, cluster := range []string{a.cluster, one.Name, two.Name} {
			expectWorking(ctx, cluster)
		}
	}, SpecTimeout(4*fleettest.Patience))

	It("should work with tokens of its ServiceAccount where the Cluster asks for that", fleettest.Long, func(ctx SpecContext) {
		a := newAgent(ctx, two, "tokens", "tokens")
		a.join(ctx, joining.AcceptNow, func(r *joining.Request) { r.Credential = v1alpha1.CredentialServiceAccountToken })
		given, err := os.ReadFile(a.bootstrap)
		Expect(err).NotTo(HaveOccurred())
		a.start()
		a.expectThawed(ctx)
		expectWorking(ctx, a.cluster)
		token, err := os.ReadFile(filepath.Join(a.credential, "token"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(given)).NotTo(ContainSubstring(string(token)), "a token of its own")
		Expect(filepath.Join(a.credential, "tls.key")).NotTo(BeAnExistingFile())
		Expect(strings.Count(string(token), ".")).To(Equal(2))
	}, SpecTimeout(2*fleettest.Patience))
})
