package joining

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/joining"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// certificatePath and keyPath are where the agent keeps them.
func (a *agent) certificatePath() string { return filepath.Join(a.credential, "tls.crt") }
func (a *agent) keyPath() string         { return filepath.Join(a.credential, "tls.key") }

// asks sends the hub's API server a request with the agent's certificate and key, as any thief of them could.
func (a *agent) asks(ctx SpecContext) error {
	GinkgoHelper()
	config := rest.AnonymousClientConfig(fleet.HubConfig)
	var err error
	// Not the files: clients that name the same ones share a connection.
	config.CertData, err = os.ReadFile(a.certificatePath())
	Expect(err).NotTo(HaveOccurred())
	config.KeyData, err = os.ReadFile(a.keyPath())
	Expect(err).NotTo(HaveOccurred())
	c, err := client.New(config, client.Options{Scheme: scheme.New()})
	Expect(err).NotTo(HaveOccurred())
	return c.Get(ctx, client.ObjectKey{Name: a.cluster}, &v1alpha1.Cluster{})
}

// expire puts in the place of the agent's certificate the same one, of the hub's own authority, whose time is over.
func (a *agent) expire() (serial string) {
	GinkgoHelper()
	pki := filepath.Join(fleet.Hub.Dir(), "pki")
	authority, err := cert.CertsFromFile(filepath.Join(pki, "ca.crt"))
	Expect(err).NotTo(HaveOccurred())
	signer, err := keyutil.PrivateKeyFromFile(filepath.Join(pki, "ca.key"))
	Expect(err).NotTo(HaveOccurred())
	present, err := cert.CertsFromFile(a.certificatePath())
	Expect(err).NotTo(HaveOccurred())
	lapsed := *present[0]
	lapsed.NotBefore, lapsed.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
	// That of the authority is chosen again.
	lapsed.SignatureAlgorithm = x509.UnknownSignatureAlgorithm
	signed, err := x509.CreateCertificate(rand.Reader, &lapsed, authority[0], lapsed.PublicKey, signer)
	Expect(err).NotTo(HaveOccurred())
	content := pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: signed})
	Expect(os.WriteFile(a.certificatePath(), content, 0o600)).To(Succeed())
	return lapsed.SerialNumber.String()
}

var _ = Describe("An agent whose certificate has expired", fleettest.Long, func() {
	// Claim: An expired certificate is refused; a good token joins again. Broken: the request goes over a connection of the certificate before.
	It("should be refused by the hub's API server, and join again with a token that is good", func(ctx SpecContext) {
		a := newAgent(ctx, two, "lapsed", "lapsed")
		a.join(ctx, joining.AcceptNow)
		a.start()
		a.expectThawed(ctx)
		end(a.process, syscall.SIGTERM)
		Expect(a.asks(ctx)).To(Succeed(), "its certificate is good")
		serial := a.expire()
		Expect(a.asks(ctx)).To(Satisfy(apierrors.IsUnauthorized), "the time of its certificate is over")

		// The hub deletes a token whose agent has joined, so there has to be another one.
		a.join(ctx, joining.AcceptNow)
		a.start()
		a.expectThawed(ctx)
		expectWorking(ctx, a.cluster)
		present, err := cert.CertsFromFile(a.certificatePath())
		Expect(err).NotTo(HaveOccurred())
		Expect(present[0].SerialNumber.String()).NotTo(Equal(serial))
		Expect(present[0].NotAfter).To(BeTemporally(">", time.Now()))
		Expect(a.asks(ctx)).To(Succeed())
		request := &certificatesv1.CertificateSigningRequest{}
		Expect(fleet.HubClient.Get(ctx, client.ObjectKey{Name: v1alpha1.AgentRequestPrefix + a.cluster}, request)).To(Succeed())
		Expect(request.Spec.Username).To(HavePrefix("system:bootstrap:"), "it asked with its token")
	}, SpecTimeout(3*fleettest.Patience))
})
