package certrequest

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// hostSeparator stands between the host and the cluster in the name of a request. No Cluster has it in its name.
const hostSeparator = "."

// NameOfAgent returns the name of the one request that the agent of cluster may have at a time.
func NameOfAgent(cluster string) string { return v1alpha1.AgentRequestPrefix + cluster }

// NameOfHostedAgent returns the name of the one request that the agent of host may have at a time for the agent of the simulated
// cluster that it runs. Only the first certificate is asked for so: the agent renews its own, by the name that NameOfAgent tells.
func NameOfHostedAgent(host, cluster string) string {
	return v1alpha1.AgentRequestPrefix + host + hostSeparator + cluster
}

// ParseName returns for which cluster's agent a request of that name asks, and the host if it is the host's agent that asks. Whether
// there are Clusters of these names is another question, and whether there can be.
func ParseName(name string) (host, cluster string, ours bool) {
	rest, ours := strings.CutPrefix(name, v1alpha1.AgentRequestPrefix)
	if !ours {
		return "", "", false
	}
	if host, cluster, hosted := strings.Cut(rest, hostSeparator); hosted {
		return host, cluster, true
	}
	return "", rest, true
}

// SubjectOfAgent returns the identity on the hub of the agent of cluster.
func SubjectOfAgent(cluster string) pkix.Name {
	return pkix.Name{CommonName: v1alpha1.AgentUserPrefix + cluster, Organization: []string{v1alpha1.AgentGroupPrefix + cluster}}
}

// NewForAgent returns the request of that name for the identity of the agent of cluster, with the public key of key.
func NewForAgent(name, cluster string, key crypto.Signer, lifetime time.Duration) (*certificatesv1.CertificateSigningRequest, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: SubjectOfAgent(cluster)}, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate request for the agent of cluster %s: %w", cluster, err)
	}
	expiration := int32(lifetime / time.Second)
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: der}), SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: slices.Clone(RequiredUsages), ExpirationSeconds: &expiration,
		},
	}, nil
}
