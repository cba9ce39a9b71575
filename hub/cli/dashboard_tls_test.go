package cli_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/hollowfleet/hollowfleet/hub/cli"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// issuer signs serving certificates, as cert-manager does.
type issuer struct {
	*env
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	// said is what the dashboard has written to standard error.
	said *screenText
}

func (f *env) newIssuer() *issuer {
	f.T.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	f.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	f.Expect(err).NotTo(HaveOccurred())
	cert, err := x509.ParseCertificate(der)
	f.Expect(err).NotTo(HaveOccurred())
	return &issuer{f, f.T.TempDir(), key, cert, &screenText{}}
}

// project writes a certificate with another serial number as a kubelet projects a Secret: a link is turned in one step.
func (i *issuer) project(serial int64) {
	i.T.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	i.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, i.cert, key.Public(), i.key)
	i.Expect(err).NotTo(HaveOccurred())
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	i.Expect(err).NotTo(HaveOccurred())
	version := filepath.Join(i.dir, fmt.Sprintf("..v%d", serial))
	i.Expect(os.Mkdir(version, 0o700)).To(Succeed())
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		i.Expect(os.WriteFile(filepath.Join(version, name), pem.EncodeToMemory(block), 0o600)).To(Succeed())
		if link := filepath.Join(i.dir, name); serial == 2 { // The first.
			i.Expect(os.Symlink(filepath.Join("..data", name), link)).To(Succeed())
		}
	}
	i.Expect(os.Symlink(filepath.Base(version), filepath.Join(i.dir, "..next"))).To(Succeed())
	i.Expect(os.Rename(filepath.Join(i.dir, "..next"), filepath.Join(i.dir, "..data"))).To(Succeed())
}

var servingAddress = regexp.MustCompile(`on (127\.0\.0\.1:\d+)\n`)

// serveDashboard starts "kubectl hollow dashboard serve" with the issuer's certificate, and returns its address.
func (i *issuer) serveDashboard(more ...string) string {
	i.T.Helper()
	authority := filepath.Join(i.T.TempDir(), "ca.crt")
	i.Expect(os.WriteFile(authority, testenv.Server().Config.CAData, 0o600)).To(Succeed())
	ctx, interrupt := context.WithCancel(context.WithoutCancel(i.T.Context()))
	ended := make(chan int, 1)
	line := append([]string{"dashboard", "serve", "--address", "127.0.0.1:0", "--server", testenv.Server().Config.Host, "--certificate-authority", authority,
		"--tls-cert-file", filepath.Join(i.dir, "tls.crt"), "--tls-private-key-file", filepath.Join(i.dir, "tls.key")}, more...)
	go func() {
		ended <- cli.Execute(ctx, line, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: io.Discard, ErrOut: i.said})
	}()
	i.T.Cleanup(func() {
		interrupt()
		<-ended
	})
	i.Eventually(i.said.String).WithTimeout(patience).Should(MatchRegexp(servingAddress.String()))
	return servingAddress.FindStringSubmatch(i.said.String())[1]
}

// trust is the configuration of a client that knows the issuer.
func (i *issuer) trust() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(i.cert)
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// newTLSVisitor is a browser that knows the issuer, and no cookie of an earlier visit.
func (i *issuer) newTLSVisitor(address string) *visitor {
	i.T.Helper()
	jar, err := cookiejar.New(nil)
	i.Expect(err).NotTo(HaveOccurred())
	transport := &http.Transport{TLSClientConfig: i.trust(), DisableKeepAlives: true}
	return &visitor{portal: &portal{i.env, "https://" + address}, Client: http.Client{
		Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Claim: A served dashboard speaks TLS alone on its port, its cookie is for TLS alone, and a certificate that is renewed on disk is served without a restart or another sign-in; one that cannot be served is told of. Broken: pages without TLS; a cookie that plain HTTP would carry; the files read once; nothing told.
func TestAServedDashboardSpeaksTLS(t *testing.T) {
	f := newEnv(t)
	cluster := f.AcceptedCluster()
	f.namespace()
	token, _ := f.twoUsers()
	i := f.newIssuer()
	i.project(2)
	address := i.serveDashboard()
	ann := i.newTLSVisitor(address)
	code, text, _ := ann.ask(http.MethodGet, "/", nil, nil)
	f.Expect(code).To(Equal(http.StatusUnauthorized))
	f.Expect(text).To(ContainSubstring("Sign in"))
	code, _, header := ann.ask(http.MethodPost, "/login", url.Values{"token": {token}}, nil)
	f.Expect(code).To(Equal(http.StatusSeeOther))
	f.Expect(header.Get("Set-Cookie")).To(And(HavePrefix("__Host-hollowfleet="), ContainSubstring("; Secure")))
	f.Eventually(ann.shows("/?q=" + cluster.Name)).WithTimeout(patience).Should(ContainSubstring("clusters/" + cluster.Name))

	plain, err := net.Dial("tcp", address)
	f.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = plain.Close() }()
	_, err = fmt.Fprintf(plain, "GET /login HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", address, token)
	f.Expect(err).NotTo(HaveOccurred())
	answer, _ := io.ReadAll(plain) // The connection may be reset behind the answer, or before it.
	f.Expect(string(answer)).To(Or(BeEmpty(), HavePrefix("HTTP/1.0 400 Bad Request\r\n")))
	f.Expect(string(answer)).NotTo(ContainSubstring("Hollowfleet"))
	_, err = (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("https://" + address + "/login")
	f.Expect(err).To(MatchError(ContainSubstring("certificate signed by unknown authority")))

	serial := func() int64 {
		conn, err := tls.Dial("tcp", address, i.trust())
		f.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	f.Expect(serial()).To(BeEquivalentTo(2))
	i.project(3)
	f.Eventually(serial).WithTimeout(patience).Should(BeEquivalentTo(3))
	f.Expect(ann.codeOf("/")()).To(Equal(http.StatusOK), "who has signed in stays so")

	f.Expect(os.WriteFile(filepath.Join(i.dir, "..v3", "tls.crt"), []byte("half"), 0o600)).To(Succeed())
	f.Eventually(i.said.String).WithTimeout(patience).Should(ContainSubstring("the previous one is served"))
	f.Expect(serial()).To(BeEquivalentTo(3))
}
