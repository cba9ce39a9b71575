// Package pki makes the keys and certificates of one simulated cluster: a
// certificate authority, the certificates that it signs, and the key pair
// that signs service account tokens. All keys are ECDSA P-256, because making
// an RSA key costs a noticeable part of a cluster's start.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"slices"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/atomicfile"
)

const (
	// authorityLifetime is how long a new certificate authority is valid.
	authorityLifetime = 10 * 365 * 24 * time.Hour
	// backdate makes a new certificate valid for clients whose clock is behind.
	backdate = time.Hour
)

// Authority is a certificate authority whose key is at hand.
type Authority struct {
	Certificate *x509.Certificate
	// CertificatePEM is the certificate in PEM, as kubeconfigs embed it.
	CertificatePEM []byte
	key            crypto.Signer
}

// LoadOrCreateAuthority reads the authority from the two files. If neither
// exists it makes a new authority with the given common name and writes both.
// One file without the other is an error: a new authority would make all
// certificates that the old one signed worthless.
func LoadOrCreateAuthority(certFile, keyFile, commonName string, now time.Time) (*Authority, error) {
	authority, err := LoadAuthority(certFile, keyFile)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return authority, err
	}
	for _, file := range []string{certFile, keyFile} {
		if _, statErr := os.Stat(file); statErr == nil {
			return nil, fmt.Errorf("loading certificate authority: %s is there but its counterpart is not: %w", file, err)
		}
	}
	authority, keyPEM, err := newAuthority(commonName, now)
	if err != nil {
		return nil, fmt.Errorf("making certificate authority: %w", err)
	}
	// The key goes first: a key without a certificate can be removed by hand
	// without losing anything, and the pair is never taken for complete.
	if err := atomicfile.Write(keyFile, keyPEM, 0o600); err != nil {
		return nil, err
	}
	return authority, atomicfile.Write(certFile, authority.CertificatePEM, 0o644)
}

// LoadAuthority reads an authority from its two PEM files. The error wraps
// fs.ErrNotExist if one of them is missing.
func LoadAuthority(certFile, keyFile string) (*Authority, error) {
	pair, err := readPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("loading certificate authority: %w", err)
	}
	if !pair.Certificate.IsCA {
		return nil, fmt.Errorf("loading certificate authority: the certificate in %s is not one of an authority", certFile)
	}
	return &Authority{Certificate: pair.Certificate, CertificatePEM: pair.CertificatePEM, key: pair.key}, nil
}

func newAuthority(commonName string, now time.Time) (*Authority, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	pair, err := signPair(template, template, key, key)
	if err != nil {
		return nil, nil, err
	}
	return &Authority{Certificate: pair.Certificate, CertificatePEM: pair.CertificatePEM, key: key}, pair.KeyPEM, nil
}

// Request describes a certificate to be signed.
type Request struct {
	// CommonName is the user name of a client certificate.
	CommonName string
	// Groups are the groups of a client certificate.
	Groups []string
	// Hosts are the IP addresses and DNS names that a serving certificate is
	// for. A request with hosts yields a certificate that serves; one without
	// hosts yields a client certificate.
	Hosts []string
	// Lifetime counts from now. It must be positive and end before the
	// authority's own certificate does.
	Lifetime time.Duration
}

// Issue makes a key and signs a certificate for it.
func (a *Authority) Issue(request Request, now time.Time) (*Pair, error) {
	template, err := a.certificateTemplate(request, now)
	if err != nil {
		return nil, fmt.Errorf("issuing certificate for %q: %w", request.CommonName, err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("issuing certificate for %q: %w", request.CommonName, err)
	}
	pair, err := signPair(template, a.Certificate, key, a.key)
	if err != nil {
		return nil, fmt.Errorf("issuing certificate for %q: %w", request.CommonName, err)
	}
	return pair, nil
}

func (a *Authority) certificateTemplate(request Request, now time.Time) (*x509.Certificate, error) {
	if request.CommonName == "" {
		return nil, errors.New("the common name is empty")
	}
	if request.Lifetime <= 0 {
		return nil, fmt.Errorf("the lifetime %s is not positive", request.Lifetime)
	}
	notAfter := now.Add(request.Lifetime)
	if notAfter.After(a.Certificate.NotAfter) {
		return nil, fmt.Errorf("a lifetime of %s ends after the cluster's authority does, on %s", request.Lifetime, a.Certificate.NotAfter.Format(time.DateOnly))
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	groups := slices.Clone(request.Groups)
	slices.Sort(groups)
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: request.CommonName, Organization: slices.Compact(groups)},
		NotBefore:             now.Add(-backdate),
		NotAfter:              notAfter,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	if len(request.Hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, host := range request.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return template, nil
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}
