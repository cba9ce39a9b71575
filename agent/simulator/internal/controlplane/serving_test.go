package controlplane_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pki"
)

// issuer plays cert-manager: it makes the directories that the Secrets of its Certificates are mounted as.
type issuer struct {
	dir       string
	authority *x509.Certificate
	key       *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{dir: t.TempDir()}
	i.authority = &x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, Subject: pkix.Name{CommonName: "c1-ca"}}
	der := i.write(t, "ca", i.authority)
	var err error
	if i.authority, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{controlplane.APIServer, "kube-apiserver-kubelet-client", controlplane.ControllerManager, controlplane.Scheduler, "admin"} {
		i.issue(t, name)
	}
	return i
}

func (i *issuer) file(name, file string) string { return filepath.Join(i.dir, name, file) }

// issue makes a certificate for server and client, in the place of the one before, and returns it.
func (i *issuer) issue(t *testing.T, name string) []byte {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "system:" + name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost", "c1.fleet.svc"},
	}
	if name == "admin" {
		template.Subject = pkix.Name{CommonName: name, Organization: []string{"system:masters"}}
	}
	return i.write(t, name, template)
}

// write signs a certificate and replaces both files, each in one step.
func (i *issuer) write(t *testing.T, name string, template *x509.Certificate) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := i.authority, i.key
	if signer == nil {
		parent, signer, i.key = template, key, key
	}
	template.SerialNumber, template.BasicConstraintsValid = big.NewInt(time.Now().UnixNano()), true
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(1000*time.Hour)
	if template.IsCA {
		template.NotAfter = time.Now().Add(3 * 365 * 24 * time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(i.dir, name), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(i.file(name, file)+".new", pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(i.file(name, file)+".new", i.file(name, file)); err != nil {
			t.Fatal(err)
		}
	}
	return der
}

// presented wants a server to show a certificate.
func presented(server string, certificate []byte) func() error {
	return func() error {
		connection, err := tls.Dial("tcp", strings.TrimPrefix(server, "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate itself is compared
		if err != nil {
			return err
		}
		defer connection.Close()
		if !bytes.Equal(connection.ConnectionState().PeerCertificates[0].Raw, certificate) {
			return errors.New("it shows another certificate")
		}
		return nil
	}
}

// A cluster whose certificates another program makes follows them when they are renewed, and no component starts again.
// Claim: Another program's renewed certificates are followed. Broken: not broken alone.
func TestCertificatesOfAnotherProgramAreFollowed(t *testing.T) {
	components := withoutPods
	if testing.Short() {
		components = apiServerOnly
	}
	issuer, dir, manifests := newIssuer(t), filepath.Join(t.TempDir(), "c"), t.TempDir()
	if err := os.WriteFile(filepath.Join(manifests, "a.yaml"), []byte("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: applied\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--listen", "0.0.0.0", "--pki-dir", issuer.dir, "--manifest", manifests}
	c := startCluster(t, dir, components, args...)
	before, server := c.pids(t), c.ready(t).Server
	if !strings.HasPrefix(server, "https://127.0.0.1:") {
		t.Errorf("the server is %s, want one that its own clients reach", server)
	}
	if _, err := c.admin(t).CoreV1().Namespaces().Get(context.Background(), "applied", metav1.GetOptions{}); err != nil {
		t.Errorf("the manifest is not applied when the cluster is ready: %v", err)
	}

	within(t, patience, "a renewed certificate is served", presented(server, issuer.issue(t, controlplane.APIServer)))
	for _, name := range []string{"admin", controlplane.ControllerManager, controlplane.Scheduler} {
		issuer.issue(t, name)
	}
	if _, err := c.admin(t).CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{}); err != nil {
		t.Errorf("the administrator with a renewed certificate: %v", err)
	}
	// The program's own command signs with the authority that cert-manager made.
	if _, err := c.as(t, "alice", "system:masters").CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{}); err != nil {
		t.Errorf("a kubeconfig that the program made: %v", err)
	}
	status, _ := c.status(t)
	for name, component := range status.Components {
		if !component.Healthy || component.Restarts != 0 {
			t.Errorf("%s: healthy %t, restarts %d", name, component.Healthy, component.Restarts)
		}
	}
	if after := c.pids(t); !slices.Equal(sorted(before), sorted(after)) {
		t.Errorf("processes %v are now %v", before, after)
	}
	c.stop(t)

	if _, stderr, code := simcluster(t, "start", "--data-dir", dir, "--exit-with-parent=false"); code != 2 || !strings.Contains(stderr, "--pki-dir") {
		t.Errorf("without its PKI: exit code %d, %s", code, stderr)
	}
	if err := os.Remove(issuer.file("admin", "tls.key")); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := simcluster(t, append([]string{"start", "--data-dir", dir}, args...)...); code != 2 || !strings.Contains(stderr, issuer.file("admin", "tls.key")) {
		t.Errorf("without a key: exit code %d, %s", code, stderr)
	}
}

func sorted(pids []int) []int {
	pids = slices.Clone(pids)
	slices.Sort(pids)
	return pids
}

// The names of a Service are in the certificate that the cluster makes itself.
// Claim: Service names are in the certificate. Broken: `--serving-name` beside `--pki-dir` taken. Also: TestValidate.
func TestServingNames(t *testing.T) {
	c := startCluster(t, filepath.Join(t.TempDir(), "c"), apiServerOnly, "--listen", "0.0.0.0", "--serving-name", "c1.fleet.svc", "--serving-name", "192.0.2.7")
	connection, err := tls.Dial("tcp", strings.TrimPrefix(c.ready(t).Server, "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // only its names are looked at
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	served := connection.ConnectionState().PeerCertificates[0]
	for _, name := range []string{"c1.fleet.svc", "192.0.2.7", "localhost", "127.0.0.1", "kubernetes.default.svc"} {
		if err := served.VerifyHostname(name); err != nil {
			t.Error(fmt.Errorf("%s: %w", name, err))
		}
	}
	if _, err := c.admin(t).CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// age replaces a certificate of the cluster by one that says the same and is to be renewed after a while, and returns it.
func age(t *testing.T, authority *pki.Authority, base string, after time.Duration) []byte {
	t.Helper()
	content, err := os.ReadFile(base + ".crt")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	old, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	request := pki.Request{CommonName: old.Subject.CommonName, Groups: old.Subject.Organization, Hosts: old.DNSNames, Lifetime: time.Until(old.NotAfter)/3 + after}
	for _, address := range old.IPAddresses {
		request.Hosts = append(request.Hosts, address.String())
	}
	aged, err := authority.Issue(request, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{base + ".crt": aged.CertificatePEM, base + ".key": aged.KeyPEM} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return aged.Certificate.Raw
}

// startAged starts a control plane whose certificates are due after that time, or after a longer one if the start takes longer, and returns
// the certificate that it serves.
func startAged(t *testing.T, dir string, after time.Duration, ageAll func(time.Duration) []byte, start func() *cluster) (*cluster, []byte, time.Duration) {
	t.Helper()
	for {
		served, begun := ageAll(after), time.Now()
		c := start()
		err := presented(c.ready(t).Server, served)()
		if err == nil {
			return c, served, after
		}
		took := time.Since(begun)
		if took < after {
			t.Fatalf("the certificate of %s was renewed before its time: %v", dir, err)
		}
		c.stop(t)
		after = 3 * took
	}
}

// The certificates that the cluster has made itself are renewed while it runs: at the API server, in the administrator's kubeconfig,
// and beside that of a client. No component starts again.
// Claim: A cluster's own certificates are renewed without restarts. Broken: never renewed while it runs; the time of what is there not looked at; a kubeconfig that holds the certificate. Also: agent/simulator/internal/pki TestEnsurePairKeepsWhatIsStillRight.
func TestOwnCertificatesAreRenewedWhileTheClusterRuns(t *testing.T) {
	components := withoutPods
	if testing.Short() {
		components = apiServerOnly
	}
	dir, file := filepath.Join(t.TempDir(), "c"), filepath.Join(t.TempDir(), "agent.conf")
	args := []string{"--client-kubeconfig", "user=agent,group=fleet:agents,group=system:masters,file=" + file}
	begun := time.Now()
	c := startCluster(t, dir, components, args...)
	started := time.Since(begun)
	c.stop(t)

	authority, err := pki.LoadAuthority(filepath.Join(dir, "pki", "ca.crt"), filepath.Join(dir, "pki", "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	aged := map[string][]byte{}
	c, served, after := startAged(t, dir, 3*started+5*time.Second, func(after time.Duration) []byte {
		for _, base := range []string{file, filepath.Join(dir, "pki", "admin-client"), filepath.Join(dir, "pki", "kube-apiserver-kubelet-client")} {
			aged[base] = age(t, authority, base, after)
		}
		return age(t, authority, filepath.Join(dir, "pki", controlplane.APIServer), after)
	}, func() *cluster { return startCluster(t, dir, components, args...) })
	before, server := c.pids(t), c.ready(t).Server
	admin, err := os.ReadFile(c.ready(t).AdminKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(c.config(t, file))
	within(t, after+patience, "the API server's certificate is renewed", func() error {
		if err := presented(server, served)(); err == nil {
			return errors.New("it shows the one that is about to end")
		}
		return nil
	})
	for _, component := range []string{controlplane.ControllerManager, controlplane.Scheduler} {
		if config := c.config(t, filepath.Join(dir, "kubeconfigs", component+".conf")); config.CertFile != filepath.Join(dir, "pki", component+"-client.crt") || len(config.CertData) > 0 {
			t.Errorf("the kubeconfig of %s names the certificate %q, and holds %d bytes of one: it does not follow its file", component, config.CertFile, len(config.CertData))
		}
	}
	for base, old := range aged {
		within(t, patience, filepath.Base(base)+" is renewed", func() error {
			content, err := os.ReadFile(base + ".crt")
			if err != nil {
				return err
			}
			block, _ := pem.Decode(content)
			renewed, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return err
			}
			if bytes.Equal(renewed.Raw, old) {
				return errors.New("it is the one that is about to end")
			}
			if left := time.Until(renewed.NotAfter); left < 360*24*time.Hour {
				return fmt.Errorf("it is good for %s, want a year", left)
			}
			return nil
		})
	}
	within(t, patience, "the administrator's kubeconfig has the renewed certificate", func() error {
		content, err := os.ReadFile(c.ready(t).AdminKubeconfig)
		if err == nil && bytes.Equal(content, admin) {
			err = errors.New("it is as before")
		}
		return err
	})
	for name, client := range map[string]kubernetes.Interface{"the administrator": c.admin(t), "an earlier client": client, "a new client": kubernetes.NewForConfigOrDie(c.config(t, file))} {
		if _, err := client.CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := c.pids(t); !slices.Equal(sorted(before), sorted(after)) {
		t.Errorf("processes %v are now %v", before, after)
	}
	if status, _ := c.status(t); !status.Healthy {
		t.Errorf("the cluster is not healthy: %+v", status)
	}
}

// Claim: Wrong kubeconfig requests are refused. Broken: not broken alone.
func TestClientKubeconfigsThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"agent":                     `"agent" has no value`,
		"user=agent":                "user and file are needed",
		"file=a":                    "user and file are needed",
		"user=a,user=b,file=c":      `"user=b" is neither user, group nor file, or is there twice`,
		"user=a,groups=b,file=c":    `"groups=b" is neither`,
		"user=a,group=,file=/tmp/c": `"group=" has no value`,
	} {
		if _, stderr, code := simcluster(t, "start", "--name", "c", "--data-dir", filepath.Join(t.TempDir(), "c"), "--client-kubeconfig", text); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s, want %s", text, code, stderr, want)
		}
	}
	issuer := newIssuer(t)
	if _, stderr, code := simcluster(t, "start", "--name", "c", "--data-dir", filepath.Join(t.TempDir(), "c"), "--pki-dir", issuer.dir, "--client-kubeconfig", "user=a,file=/tmp/a"); code != 2 || !strings.Contains(stderr, "--client-kubeconfig is of no use with --pki-dir") {
		t.Errorf("with --pki-dir: exit code %d, %s", code, stderr)
	}
}
