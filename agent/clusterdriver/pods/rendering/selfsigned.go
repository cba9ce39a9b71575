package rendering

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	authorityKey = "ca.crt"
	// backdated is how long before the present a certificate is valid, for clocks that differ.
	backdated = 5 * time.Minute
)

// Pair is a certificate with its key, as a Secret of type kubernetes.io/tls has them, and the certificate of the authority.
type Pair struct{ Certificate, Key, CA []byte }

// PairOf reads a Secret.
func PairOf(secret *corev1.Secret) Pair {
	return Pair{Certificate: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey], CA: secret.Data[authorityKey]}
}

// PairSecret is the Secret with a certificate that the driver has made.
func (c Cluster) PairSecret(name string, pair Pair) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: typeOf("v1", "Secret"), ObjectMeta: c.meta(SecretOf(name)), Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key, authorityKey: pair.CA},
	}
}

// NewAuthority makes the authority of a cluster.
func NewAuthority(cluster string, now time.Time) (Pair, error) {
	key, encoded, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: cluster + "-ca", NotBefore: now.Add(-backdated)}, key)
	if err != nil {
		return Pair{}, fmt.Errorf("making the authority: %w", err)
	}
	content := encodeCertificate(certificate.Raw)
	return Pair{Certificate: content, Key: encoded, CA: content}, nil
}

// Issue signs a certificate, with a new key.
func (authority Pair) Issue(wanted Certificate, now time.Time) (Pair, error) {
	pair, err := tls.X509KeyPair(authority.Certificate, authority.Key)
	if err != nil {
		return Pair{}, fmt.Errorf("reading the authority: %w", err)
	}
	parent, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return Pair{}, fmt.Errorf("reading the authority: %w", err)
	}
	key, encoded, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	template, err := wanted.template(now)
	if err != nil {
		return Pair{}, err
	}
	if template.NotAfter.After(parent.NotAfter) {
		template.NotAfter = parent.NotAfter
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), pair.PrivateKey)
	if err != nil {
		return Pair{}, fmt.Errorf("signing the certificate of %s: %w", wanted.Name, err)
	}
	return Pair{Certificate: encodeCertificate(signed), Key: encoded, CA: authority.Certificate}, nil
}

func (wanted Certificate) template(now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: wanted.User}, NotBefore: now.Add(-backdated), NotAfter: now.Add(certificateLifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, DNSNames: wanted.Names,
	}
	if wanted.Group != "" {
		template.Subject.Organization = []string{wanted.Group}
	}
	if wanted.Server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if wanted.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	for _, address := range wanted.Addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	return template, nil
}

// Needs reports whether a certificate is to be issued: there is none that is for wanted, or less than a third of its lifetime is left.
func (authority Pair) Needs(issued Pair, wanted Certificate, now time.Time) bool {
	pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	if err != nil || !bytes.Equal(issued.CA, authority.Certificate) {
		return true
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil || leaf.Subject.CommonName != wanted.User || leaf.NotAfter.Sub(now) < certificateLifetime/3 {
		return true
	}
	for _, name := range append(append([]string{}, wanted.Names...), wanted.Addresses...) {
		if leaf.VerifyHostname(name) != nil {
			return true
		}
	}
	return false
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	return key, encoded, nil
}

func encodeCertificate(raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: raw})
}
