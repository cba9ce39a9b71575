package joining

import (
	"os"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/joining"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("An agent that keeps its credential in a Secret of its cluster", func() {
	// The identity of an agent beside its cluster has the role that the ServiceAccount of its pod has. With that one no agent works in a
	// cluster with a podhost; those of "make e2e" have it.
	It("should join, and start again without token, with the rights of its pod", func(ctx SpecContext) {
		a := newAgent(ctx, two, "kept", "kept")
		a.secret = "hollowfleet/hub-credential-kept"
		a.join(ctx, joining.AcceptNow)
		a.start()
		a.expectThawed(ctx)
		expectWorking(ctx, a.cluster)

		stored := &corev1.Secret{}
		stored.Namespace, stored.Name = "hollowfleet", "hub-credential-kept"
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(two.Client.Delete(ctx, stored))).To(Succeed())
		}, NodeTimeout(fleettest.Patience))
		Expect(two.Client.Get(ctx, client.ObjectKeyFromObject(stored), stored)).To(Succeed())
		Expect(stored.Data).To(And(HaveKey("tls.key"), HaveKey("tls.crt"), HaveKey("kubeconfig")))
		Expect(a.credential).NotTo(BeADirectory(), "nothing of it is on disk")

		By("killing it, and starting another one that has nothing but the Secret")
		end(a.process, syscall.SIGKILL)
		_, err := joining.DeleteTokens(ctx, fleet.HubClient, a.cluster)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.Remove(a.bootstrap)).To(Succeed())
		began := time.Now()
		a.start()
		a.expectThawed(ctx)
		report("from the start of an agent whose credential is in a Secret, after another was killed, until it works: %.1f s", time.Since(began).Seconds())
		kept := &corev1.Secret{}
		Expect(two.Client.Get(ctx, client.ObjectKeyFromObject(stored), kept)).To(Succeed())
		Expect(kept.Data["tls.crt"]).To(Equal(stored.Data["tls.crt"]), "it asked for no other certificate")
	}, SpecTimeout(3*fleettest.Patience))
})
