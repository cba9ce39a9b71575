package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/atomicfile"
)

// Pair is a certificate and its private key.
type Pair struct {
	Certificate    *x509.Certificate
	CertificatePEM []byte
	KeyPEM         []byte
	key            crypto.Signer
}

// EnsurePair makes the two files hold a certificate as requested, signed by
// this authority. A pair that is already there is kept as long as it says the
// same and is valid for at least the renewal time, else it is replaced.
func (a *Authority) EnsurePair(certFile, keyFile string, request Request, renewBefore time.Duration, now time.Time) (*Pair, error) {
	pair, err := readPair(certFile, keyFile)
	if err == nil && a.satisfiesRequest(pair.Certificate, request, renewBefore, now) {
		return pair, nil
	}
	pair, err = a.Issue(request, now)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.Write(keyFile, pair.KeyPEM, 0o600); err != nil {
		return nil, err
	}
	return pair, atomicfile.Write(certFile, pair.CertificatePEM, 0o644)
}

// satisfiesRequest reports whether the certificate says what was requested, is signed
// by this authority and has enough time left.
func (a *Authority) satisfiesRequest(certificate *x509.Certificate, request Request, renewBefore time.Duration, now time.Time) bool {
	if certificate.CheckSignatureFrom(a.Certificate) != nil || now.Before(certificate.NotBefore) || now.Add(renewBefore).After(certificate.NotAfter) {
		return false
	}
	want, err := a.certificateTemplate(request, now)
	if err != nil {
		return false
	}
	return certificate.Subject.CommonName == want.Subject.CommonName &&
		slices.Equal(certificate.Subject.Organization, want.Subject.Organization) &&
		slices.Equal(certificate.DNSNames, want.DNSNames) &&
		slices.EqualFunc(certificate.IPAddresses, want.IPAddresses, net.IP.Equal) &&
		slices.Equal(certificate.ExtKeyUsage, want.ExtKeyUsage)
}

// EnsureServiceAccountKeys makes the two files hold the key pair that signs
// and verifies service account tokens. Existing files are kept, so that tokens
// stay valid over a restart.
func EnsureServiceAccountKeys(privateFile, publicFile string) error {
	if _, err := os.Stat(publicFile); err == nil {
		if _, err := os.Stat(privateFile); err == nil {
			return nil
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the service account key: %w", err)
	}
	privatePEM, err := encodeKey(key)
	if err != nil {
		return fmt.Errorf("making the service account key: %w", err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encoding the service account public key: %w", err)
	}
	if err := atomicfile.Write(privateFile, privatePEM, 0o600); err != nil {
		return err
	}
	return atomicfile.Write(publicFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER}), 0o644)
}

func signPair(template, parent *x509.Certificate, key, parentKey crypto.Signer) (*Pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading back the signed certificate: %w", err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return &Pair{
		Certificate:    certificate,
		CertificatePEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyPEM:         keyPEM,
		key:            key,
	}, nil
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	ecKey, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("encoding a key of type %T, which is not ECDSA", key)
	}
	der, err := x509.MarshalECPrivateKey(ecKey)
	if err != nil {
		return nil, fmt.Errorf("encoding the key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func readPair(certFile, keyFile string) (*Pair, error) {
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, err
	}
	certBlock, _ := pem.Decode(certPEM)
	if certBlock == nil {
		return nil, fmt.Errorf("%s holds no PEM block", certFile)
	}
	certificate, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", certFile, err)
	}
	keyBlock, _ := pem.Decode(keyPEM)
	if keyBlock == nil {
		return nil, fmt.Errorf("%s holds no PEM block", keyFile)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", keyFile, err)
	}
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, fmt.Errorf("the key in %s does not belong to the certificate in %s", keyFile, certFile)
	}
	return &Pair{Certificate: certificate, CertificatePEM: certPEM, KeyPEM: keyPEM, key: key}, nil
}
