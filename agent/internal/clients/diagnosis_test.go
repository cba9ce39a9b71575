package clients

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A request to a server that is not the right one, or not to be trusted, says what is wrong with it.
// Claim: Wrong token, URL, CA or clock are named. Broken: a wrong authority, and a certificate that is not valid by the agent's clock, not told from other errors; the errors of joining not looked at. Also: agent TestTheAgentSaysWhyItCannotJoin.
func TestDiagnose(t *testing.T) {
	now := time.Now()
	valid, validCA := serverCertificate(t, now.Add(-time.Hour), now.Add(time.Hour))
	_, anotherCA := serverCertificate(t, now.Add(-time.Hour), now.Add(time.Hour))
	later, laterCA := serverCertificate(t, now.Add(time.Hour), now.Add(2*time.Hour))
	expired, expiredCA := serverCertificate(t, now.Add(-2*time.Hour), now.Add(-time.Hour))
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(unused.Close()).To(Succeed())
	for name, test := range map[string]struct {
		server string
		ca     []byte
		want   string
	}{
		"nothing listens":           {"https://" + unused.Addr().String(), validCA, "wrong URL, or the server is down: nothing listens there"},
		"a server without TLS":      {strings.Replace(plain.URL, "http:", "https:", 1), validCA, "wrong URL: the server does not speak TLS"},
		"another authority":         {serveTLS(t, valid), anotherCA, "wrong CA: the kubeconfig's certificate authority did not sign the server's certificate"},
		"another name":              {strings.Replace(serveTLS(t, valid), "127.0.0.1", "localhost", 1), validCA, "wrong URL, or server name: the server's certificate is for other names"},
		"a clock that is behind":    {serveTLS(t, later), laterCA, "clock skew, or an expired certificate: according to this machine's clock"},
		"a clock that is ahead":     {serveTLS(t, expired), expiredCA, "clock skew, or an expired certificate: according to this machine's clock"},
		"a server that is all fine": {serveTLS(t, valid), validCA, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			direct, err := NewDirect(&rest.Config{Host: test.server, TLSClientConfig: rest.TLSClientConfig{CAData: test.ca}})
			g.Expect(err).NotTo(HaveOccurred())
			failed := direct.Reader.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, &corev1.Namespace{})
			g.Expect(failed).To(HaveOccurred(), "it answers with 404")
			said := Diagnose(failed)
			g.Expect(errors.Is(said, failed)).To(BeTrue(), "the cause is lost")
			if test.want == "" {
				g.Expect(said).To(BeIdenticalTo(failed))
				return
			}
			g.Expect(said).To(MatchError(HavePrefix(test.want)))
		})
	}
	g := NewWithT(t)
	g.Expect(Diagnose(&net.DNSError{Name: "hub.example", IsNotFound: true})).To(MatchError(HavePrefix("wrong URL: unknown host name")))
	g.Expect(Diagnose(syscall.ECONNRESET)).To(Equal(syscall.ECONNRESET))
	g.Expect(Diagnose(nil)).To(Succeed())
}

func serveTLS(t *testing.T, certificate tls.Certificate) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// serverCertificate is for 127.0.0.1, and its own authority.
func serverCertificate(t *testing.T, from, until time.Time) (certificate tls.Certificate, authority []byte) {
	t.Helper()
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: from, NotAfter: until, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
