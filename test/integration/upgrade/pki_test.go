package upgrade

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// authority is the certificate authority of a control plane.
type authority struct {
	parsed      *x509.Certificate
	key         *ecdsa.PrivateKey
	certificate []byte
}

func newKey() *ecdsa.PrivateKey {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	return key
}

func newAuthority(name string) *authority {
	GinkgoHelper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	a := &authority{key: newKey()}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	Expect(err).NotTo(HaveOccurred())
	a.parsed, err = x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	a.certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// writePKI writes what a control plane of 9b97cca had in its directory pki.
func (a *authority) writePKI(dir string) {
	GinkgoHelper()
	Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "ca.crt"), a.certificate, 0o644)).To(Succeed())
	writeKey(filepath.Join(dir, "ca.key"), a.key)
	accounts := newKey()
	writeKey(filepath.Join(dir, "sa.key"), accounts)
	public, err := x509.MarshalPKIXPublicKey(&accounts.PublicKey)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(dir, "sa.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o644)).To(Succeed())
	for name, subject := range map[string]pkix.Name{
		"admin-client":                   {CommonName: "admin", Organization: []string{"system:masters"}},
		"kube-apiserver-kubelet-client":  {CommonName: "kube-apiserver-kubelet-client"},
		"kube-controller-manager-client": {CommonName: "system:kube-controller-manager"},
		"kube-scheduler-client":          {CommonName: "system:kube-scheduler"},
		"podhost-client":                 {CommonName: "system:node:c1-podhost", Organization: []string{"system:nodes"}},
	} {
		a.issue(dir, name, subject, x509.ExtKeyUsageClientAuth)
	}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		a.issue(dir, name, pkix.Name{CommonName: name}, x509.ExtKeyUsageServerAuth)
	}
}

func (a *authority) issue(dir, name string, subject pkix.Name, usage x509.ExtKeyUsage) {
	GinkgoHelper()
	key := newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage}, BasicConstraintsValid: true,
		DNSNames: []string{"localhost", "kubernetes"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(172, 30, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.parsed, &key.PublicKey, a.key)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(dir, name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)).To(Succeed())
	writeKey(filepath.Join(dir, name+".key"), key)
}

func writeKey(path string, key *ecdsa.PrivateKey) {
	GinkgoHelper()
	der, err := x509.MarshalECPrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)).To(Succeed())
}
