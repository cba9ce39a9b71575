package clientcert

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// authority is a certificate authority of the test's own.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{certificate: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "second authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}}
	a.pem, a.key, _ = sign(t, a.certificate, nil)
	block, _ := pem.Decode(a.pem)
	var err error
	if a.certificate, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign makes a key and a certificate, signed by an authority or by itself.
func sign(t *testing.T, template *x509.Certificate, by *authority) (certificate []byte, key *ecdsa.PrivateKey, keyPEM []byte) {
	t.Helper()
	keyPEM, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	key, _ = parsed.(*ecdsa.PrivateKey)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key, keyPEM
}

func (a *authority) client(t *testing.T, name string, groups ...string) (certificate, key []byte) {
	t.Helper()
	certificate, _, key = sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name, Organization: groups},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
	}, a)
	return certificate, key
}

func (a *authority) server(t *testing.T) (certificate, key []byte) {
	t.Helper()
	certificate, _, key = sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "kube-apiserver"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
	}, a)
	return certificate, key
}

// presented returns the certificate that a server shows.
func presented(url string) ([]byte, error) {
	connection, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	return connection.ConnectionState().PeerCertificates[0].Raw, nil
}

func leafOf(b *env, certificate []byte) []byte {
	b.T.Helper()
	block, _ := pem.Decode(certificate)
	if block == nil {
		b.T.Fatal("no certificate")
	}
	return block.Bytes
}
