package hosted

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/certrequest"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// signExpired signs a request with the hub's own authority, as if its certificate had been valid until a minute ago.
func (f *localFleet) signExpired(request []byte) []byte {
	GinkgoHelper()
	pki := filepath.Join(f.dir, "hub", "pki")
	authority, err := cert.CertsFromFile(filepath.Join(pki, "ca.crt"))
	Expect(err).NotTo(HaveOccurred())
	signer, err := keyutil.PrivateKeyFromFile(filepath.Join(pki, "ca.key"))
	Expect(err).NotTo(HaveOccurred())
	block, _ := pem.Decode(request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	Expect(err).NotTo(HaveOccurred())
	signed, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: parsed.Subject,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(-time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, authority[0], parsed.PublicKey, signer)
	Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: signed})
}

// awaitRequest waits for the request of the certificate of a simulated cluster's agent, as the hub has approved it.
func (f *localFleet) awaitRequest(ctx context.Context, name string) *certificatesv1.CertificateSigningRequest {
	GinkgoHelper()
	request := &certificatesv1.CertificateSigningRequest{}
	Eventually(ctx, func(g Gomega) {
		g.Expect(f.hub.Get(ctx, client.ObjectKey{Name: certrequest.NameOfHostedAgent(localfleet.HostName, name)}, request)).To(Succeed())
		g.Expect(request.Status.Conditions).To(ContainElement(HaveField("Type", certificatesv1.CertificateApproved)))
	}).WithPolling(watchful).Should(Succeed())
	return request
}

var _ = Describe("The credential of a simulated cluster's agent", fleettest.Long, func() {
	// Claim: A first credential that expires before its use is refused and requested again. Broken: the expired certificate kept.
	It("should be requested again if it has expired before the host uses it", func(ctx SpecContext) {
		const name = "expired"
		o := fleet.observe(ctx, name)
		ready, err := process.ReadReady(filepath.Join(fleet.dir, "hub"))
		Expect(err).NotTo(HaveOccurred())
		signs := suspend(ready.Components["kube-controller-manager"].PID)
		set := fleet.createSet(ctx, name, 1, 0)
		one := namesOf(name, 0)[0]
		first := fleet.awaitRequest(ctx, one)
		works := suspend(fleet.pidOf(hostProcess))
		first.Status.Certificate = fleet.signExpired(first.Spec.Request)
		Expect(fleet.hub.SubResource("status").Update(ctx, first)).To(Succeed())
		works()
		var second types.UID
		Eventually(ctx, func(g Gomega) {
			second = fleet.awaitRequest(ctx, one).UID
			g.Expect(second).NotTo(Equal(first.UID), "the expired one is removed, and another one made")
		}).Should(Succeed())
		Expect(o.recorded()).To(BeEmpty(), "the keeper refuses it")
		signs()
		fleet.expectReady(ctx, set, 1)
		o.expectWhole(ctx, []string{one}, 0, older)
		o.expectMade(ctx, []string{one}, 0)
	}, SpecTimeout(fleettest.Patience))

	// Claim: An agent whose credential expires while nothing runs joins again. Broken: the expiry not read.
	It("should be replaced when the fleet starts again after it has expired", func(ctx SpecContext) {
		const name = "lapsed"
		o := fleet.observe(ctx, name)
		set := fleet.createSet(ctx, name, 1, 1)
		one := namesOf(name, 0)
		o.expectSettled(ctx, 1, one, older)
		before := o.machineUIDs(ctx, one)
		Expect(syscall.Kill(fleet.pidOf(localfleet.KeeperName), syscall.SIGKILL)).To(Succeed())
		fleet.awaitEnd(ctx)
		credential := filepath.Join(fleet.dir, "agents", one[0], "credential")
		key, err := keyutil.PrivateKeyFromFile(filepath.Join(credential, "tls.key"))
		Expect(err).NotTo(HaveOccurred())
		present, err := cert.CertsFromFile(filepath.Join(credential, "tls.crt"))
		Expect(err).NotTo(HaveOccurred())
		request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: present[0].Subject}, key)
		Expect(err).NotTo(HaveOccurred())
		lapsed := fleet.signExpired(pem.EncodeToMemory(&pem.Block{Type: cert.CertificateRequestBlockType, Bytes: request}))
		Expect(os.WriteFile(filepath.Join(credential, "tls.crt"), lapsed, 0o600)).To(Succeed())
		fleet.expectHollow(ctx, "local", "up", "--dir", fleet.dir)
		Eventually(ctx, func(g Gomega) {
			now, err := cert.CertsFromFile(filepath.Join(credential, "tls.crt"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now[0].NotAfter).To(BeTemporally(">", time.Now()))
		}).Should(Succeed())
		fleet.expectReady(ctx, set, 1)
		o.expectSettled(ctx, 1, one, older)
		Expect(o.machineUIDs(ctx, one)).To(ConsistOf(before))
	}, SpecTimeout(fleettest.Patience))
})
