package tenancy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// invite makes a join token for clusters as a user does who keeps it beside the Cluster object, and returns what its
// holder uses the hub with.
func (h *testHub) invite(ctx context.Context, cluster string, lifetime time.Duration) *rest.Config {
	GinkgoHelper()
	id, secret := utilrand.String(6), utilrand.String(16)
	h.create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id, Labels: map[string]string{v1alpha1.ClusterNameLabel: cluster},
		},
		Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "expiration": time.Now().Add(lifetime).UTC().Format(time.RFC3339),
			"usage-bootstrap-authentication": "true", "auth-extra-groups": v1alpha1.JoinGroupPrefix + cluster,
		},
	})
	config := rest.AnonymousClientConfig(h.Config)
	config.BearerToken = id + "." + secret
	config.QPS = -1
	return config
}

// key is an agent's private key and the request that it signed.
type key struct {
	private *ecdsa.PrivateKey
	request []byte
}

// newKey is used by the table too, which is also made where no spec runs.
func newKey(template x509.CertificateRequest) key {
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	der := must(x509.CreateCertificateRequest(rand.Reader, &template, private))
	return key{private: private, request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func (k key) config(base *rest.Config, certificate []byte) *rest.Config {
	GinkgoHelper()
	der, err := x509.MarshalECPrivateKey(k.private)
	Expect(err).NotTo(HaveOccurred())
	config := rest.AnonymousClientConfig(base)
	config.CertData, config.KeyData = certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	config.QPS = -1
	return config
}

// identity is what the agent of cluster asks for.
func identity(cluster string) x509.CertificateRequest {
	return x509.CertificateRequest{Subject: pkix.Name{
		CommonName: v1alpha1.AgentUserPrefix + cluster, Organization: []string{v1alpha1.AgentGroupPrefix + cluster},
	}}
}

// signingRequest is the request of cluster's agent; nil asks with a key of its own.
func signingRequest(cluster string, request []byte) *certificatesv1.CertificateSigningRequest {
	if request == nil {
		request = newKey(identity(cluster)).request
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AgentRequestPrefix + cluster},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientSignerName, Request: request, ExpirationSeconds: new(int32(3600)),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
}

// ask makes the request of cluster's agent with an identity that may. It is recreated until the hub has given the
// access.
func ask(ctx context.Context, with *rest.Config, cluster string) key {
	GinkgoHelper()
	made := newKey(identity(cluster))
	c := clientFor(with)
	Eventually(ctx, func(ctx context.Context) error {
		return c.Create(ctx, signingRequest(cluster, made.request))
	}).Should(Succeed(), "asking for the certificate of cluster %s", cluster)
	return made
}

// receive waits for the certificate, removes the request, and returns the identity of cluster's agent.
func (h *testHub) receive(ctx context.Context, with *rest.Config, cluster string, made key) *rest.Config {
	GinkgoHelper()
	c := clientFor(with)
	csr := signingRequest(cluster, made.request)
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(csr), csr)).To(Succeed())
		g.Expect(csr.Status.Certificate).NotTo(BeEmpty(), "%+v", csr.Status.Conditions)
	}).Should(Succeed(), "the hub approves, and its API server signs")
	config := made.config(h.Config, csr.Status.Certificate)
	Expect(c.Delete(ctx, csr)).To(Succeed())
	return config
}

// join goes the whole way from a token to the identity of cluster's agent.
func (h *testHub) join(ctx context.Context, token *rest.Config, cluster string) *rest.Config {
	GinkgoHelper()
	return h.receive(ctx, token, cluster, ask(ctx, token, cluster))
}

// accountToken is what a user gives to the agent of a cluster whose credential is ServiceAccountToken.
func (h *testHub) accountToken(ctx context.Context, cluster string) *rest.Config {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: v1alpha1.AgentServiceAccount}}
	token := &authenticationv1.TokenRequest{}
	Eventually(ctx, func(ctx context.Context) error {
		return h.Client.SubResource("token").Create(ctx, account, token)
	}).Should(Succeed(), "the hub makes the ServiceAccount of cluster %s", cluster)
	config := rest.AnonymousClientConfig(h.Config)
	config.BearerToken = token.Status.Token
	config.QPS = -1
	return config
}

// decision waits until the hub has decided on a request of cluster's agent, removes it, and returns nil if it was
// approved.
func decision(ctx context.Context, with client.Client, csr *certificatesv1.CertificateSigningRequest) error {
	GinkgoHelper()
	if err := with.Create(ctx, csr); err != nil {
		return err
	}
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(with.Get(ctx, client.ObjectKeyFromObject(csr), csr)).To(Succeed())
		g.Expect(csr.Status.Conditions).NotTo(BeEmpty())
	}).Should(Succeed(), "the hub decides on %s", csr.Name)
	Expect(with.Delete(ctx, csr)).To(Succeed())
	for _, condition := range csr.Status.Conditions {
		if condition.Type == certificatesv1.CertificateDenied {
			return deniedError{reason: condition.Reason, message: condition.Message}
		}
	}
	return nil
}

// deniedError is a request that the hub has denied.
type deniedError struct{ reason, message string }

func (e deniedError) Error() string { return fmt.Sprintf("denied: %s: %s", e.reason, e.message) }
