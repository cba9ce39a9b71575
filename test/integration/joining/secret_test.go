package joining

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/joining"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// asServiceAccount gives the agent, in its workload cluster, the identity and the rights that it has in a pod.
func (a *agent) asServiceAccount(ctx context.Context, member *localfleet.Member) {
	GinkgoHelper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = "hollowfleet", "hollowfleet-agent"
	Expect(member.Client.SubResource("token").Create(ctx, account, request)).To(Succeed())
	kubeconfig, err := clientcmd.LoadFromFile(a.target)
	Expect(err).NotTo(HaveOccurred())
	for name := range kubeconfig.AuthInfos {
		kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	}
	a.target = filepath.Join(filepath.Dir(a.bootstrap), "target.kubeconfig")
	Expect(clientcmd.WriteToFile(*kubeconfig, a.target)).To(Succeed())
}

var _ = Describe("An agent that keeps its credential in a Secret of its cluster", func() {
	It("should join, and start again without token, with the rights of its pod", func(ctx SpecContext) {
		a := newAgent(ctx, two, "kept", "kept")
		a.asServiceAccount(ctx, two)
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
