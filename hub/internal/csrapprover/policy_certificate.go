package csrapprover

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
)

// The bounds of an agent's certificate.
const (
	// MinExpirationSeconds is the least that Kubernetes allows, ten minutes; MaxExpirationSeconds is 30 days. A certificate cannot
	// be revoked, and an agent renews its own.
	MinExpirationSeconds, MaxExpirationSeconds = 600, 30 * 24 * 3600
	// A curve of 256 bits is as strong as an RSA key of 3072.
	minCurveBits, minRSABits = 256, 3072
)

// checkCertificate says what is wrong with a request for the identity of cluster's agent; nil if nothing is.
func checkCertificate(data []byte, cluster string) *Decision {
	request, err := certrequest.Parse(data)
	if err != nil {
		return deniedDecision(ReasonWrongRequest, "%v", err)
	}
	for _, check := range []func() *Decision{
		func() *Decision { return checkSubject(request, cluster) },
		func() *Decision { return checkExtensions(request) },
		func() *Decision { return checkKey(request.PublicKey) },
	} {
		if wrong := check(); wrong != nil {
			return wrong
		}
	}
	return nil
}

// keyOf returns the SHA-256 digest of the public key of a request in hexadecimal digits, empty if it has none.
func keyOf(data []byte) string {
	request, err := certrequest.Parse(data)
	if err != nil {
		return ""
	}
	digest := sha256.Sum256(request.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(digest[:])
}

func checkSubject(request *x509.CertificateRequest, cluster string) *Decision {
	subject := request.Subject
	user, group := v1alpha1.AgentUserPrefix+cluster, v1alpha1.AgentGroupPrefix+cluster
	switch {
	case subject.CommonName != user:
		return deniedDecision(ReasonWrongSubject, "spec.request: the common name is %q, want exactly %q", subject.CommonName, user)
	case !slices.Equal(subject.Organization, []string{group}):
		return deniedDecision(ReasonWrongSubject, "spec.request: the organizations are %q, want exactly one, %q", subject.Organization, group)
	case len(subject.Names) != 2:
		// Names has every attribute, also those that Subject has no field for.
		return deniedDecision(ReasonWrongSubject, "spec.request: the subject has %d attributes, want common name and organization only", len(subject.Names))
	}
	return nil
}

func checkExtensions(request *x509.CertificateRequest) *Decision {
	var names []string
	names = append(names, request.DNSNames...)
	names = append(names, request.EmailAddresses...)
	for _, ip := range request.IPAddresses {
		names = append(names, ip.String())
	}
	for _, uri := range request.URIs {
		names = append(names, uri.String())
	}
	if len(names) > 0 {
		return deniedDecision(ReasonExtensions, "spec.request: subject alternative names are not allowed: %s", strings.Join(names, ", "))
	}
	if len(request.Extensions) > 0 {
		return deniedDecision(ReasonExtensions, "spec.request: extension %s is not allowed, nor is any other", request.Extensions[0].Id)
	}
	return nil
}

func checkKey(public any) *Decision {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if bits := key.Curve.Params().BitSize; bits < minCurveBits {
			return deniedDecision(ReasonWeakKey, "spec.request: an ECDSA key of %d bits is too weak: use P-256 or stronger", bits)
		}
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits {
			return deniedDecision(ReasonWeakKey, "spec.request: an RSA key of %d bits is too weak: use ECDSA P-256, or RSA with %d bits or more", bits, minRSABits)
		}
	case ed25519.PublicKey:
	default:
		return deniedDecision(ReasonWeakKey, "spec.request: a key of type %T is unknown: use ECDSA P-256", public)
	}
	return nil
}

func checkExpiration(seconds *int32) *Decision {
	switch {
	case seconds == nil:
		return deniedDecision(ReasonWrongExpiration, "spec.expirationSeconds is missing: ask for %d to %d", MinExpirationSeconds, MaxExpirationSeconds)
	case *seconds < MinExpirationSeconds || *seconds > MaxExpirationSeconds:
		return deniedDecision(ReasonWrongExpiration, "spec.expirationSeconds: %d is not from %d to %d", *seconds, MinExpirationSeconds, MaxExpirationSeconds)
	}
	return nil
}
