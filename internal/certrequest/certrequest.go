// Package certrequest makes and reads CertificateSigningRequests for client certificates, without writing them anywhere.
package certrequest

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const requestBlock = "CERTIFICATE REQUEST"

// RequiredUsages are those that a client certificate must have; AllowedUsages may be among them.
var (
	RequiredUsages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	AllowedUsages  = append([]certificatesv1.KeyUsage{certificatesv1.UsageKeyEncipherment}, RequiredUsages...)
)

// Parse reads spec.request: one PEM block with nothing beside it, signed with its own key.
func Parse(data []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(data)
	switch {
	case block == nil || block.Type != requestBlock:
		return nil, fmt.Errorf("spec.request: not a PEM block of type %s", requestBlock)
	case !bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN ")) || len(bytes.TrimSpace(rest)) > 0 || len(block.Headers) > 0:
		return nil, fmt.Errorf("spec.request: something stands beside the one PEM block of type %s", requestBlock)
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("spec.request: %w", err)
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("spec.request: the signature is not that of its key: %w", err)
	}
	return request, nil
}

// CheckUsages says what is wrong with spec.usages; nil if nothing is.
func CheckUsages(usages []certificatesv1.KeyUsage) error {
	for _, usage := range usages {
		if !slices.Contains(AllowedUsages, usage) {
			return fmt.Errorf("spec.usages: %q is not for a client certificate", usage)
		}
	}
	for _, usage := range RequiredUsages {
		if !slices.Contains(usages, usage) {
			return fmt.Errorf("spec.usages: %q is missing", usage)
		}
	}
	return nil
}

// Open reports whether a request is neither approved nor denied yet.
func Open(csr *certificatesv1.CertificateSigningRequest) bool {
	return !slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed
	})
}
