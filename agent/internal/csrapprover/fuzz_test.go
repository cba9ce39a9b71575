package csrapprover

import (
	"crypto/x509"
	"encoding/pem"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// Every identity that may create a CertificateSigningRequest chooses these bytes.
func FuzzRequestsAreDecided(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"), "system:node:m1", "JTI=t1")
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n"), bootstrapUser, "JTI=t1,")
	f.Add([]byte{}, "", "")
	f.Fuzz(func(t *testing.T, request []byte, user, credential string) {
		csr := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Request:    request, Username: user, Groups: []string{"system:nodes", "system:authenticated"},
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			Extra:  map[string]certificatesv1.ExtraValue{credentialIDKey: {credential}},
		}}
		if name, err := nodeOf(csr); err == nil {
			block, _ := pem.Decode(request)
			if parsed, err := x509.ParseCertificateRequest(block.Bytes); err != nil || parsed.Subject.CommonName != "system:node:"+name {
				t.Errorf("%q counts as a request of node %q", request, name)
			}
		}
		if verdict, _ := Decide(csr, Facts{}); verdict.Approves() {
			t.Errorf("%q of user %q is approved, although no Machine is known", request, user)
		}
	})
}
