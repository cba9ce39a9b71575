package tenancy

import (
	"context"
	"crypto/x509"
	"net"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func token(namespace, account string) do {
	return func(ctx context.Context, c client.WithWatch) error {
		return c.SubResource("token").Create(ctx, &corev1.ServiceAccount{ObjectMeta: in(namespace, account)}, &authenticationv1.TokenRequest{})
	}
}

// certificate asks for the agent's certificate, changed, and tells what the hub decides.
func certificate(change func(*certificatesv1.CertificateSigningRequest)) do {
	return func(ctx context.Context, c client.WithWatch) error {
		csr := signingRequest(clusterA, nil)
		if change != nil {
			change(csr)
		}
		return decision(ctx, c, csr)
	}
}

// of asks for a certificate with these contents.
func of(change func(*x509.CertificateRequest)) do {
	return certificate(func(csr *certificatesv1.CertificateSigningRequest) {
		template := identity(clusterA)
		change(&template)
		csr.Spec.Request = newKey(template).request
	})
}

func certificates() []attempt {
	signer := func(name string) do {
		return certificate(func(csr *certificatesv1.CertificateSigningRequest) { csr.Spec.SignerName = name })
	}
	return []attempt{
		{"the common name of `b`", approver, "common name", of(func(r *x509.CertificateRequest) { r.Subject.CommonName = v1alpha1.AgentUserPrefix + clusterB })},
		{"the common name of `ab`", approver, "common name", of(func(r *x509.CertificateRequest) { r.Subject.CommonName = v1alpha1.AgentUserPrefix + clusterAB })},
		{"the organization of `b`", approver, "organizations", of(func(r *x509.CertificateRequest) {
			r.Subject.Organization = []string{v1alpha1.AgentGroupPrefix + clusterB}
		})},
		{"the organization of `b` beside its own", approver, "organizations", of(func(r *x509.CertificateRequest) {
			r.Subject.Organization = append(r.Subject.Organization, v1alpha1.AgentGroupPrefix+clusterB)
		})},
		{"the organization of `ab`", approver, "organizations", of(func(r *x509.CertificateRequest) {
			r.Subject.Organization = []string{v1alpha1.AgentGroupPrefix + clusterAB}
		})},
		{"another organization beside its own", approver, "organizations", of(func(r *x509.CertificateRequest) {
			r.Subject.Organization = append(r.Subject.Organization, "system:nodes")
		})},
		{"an organizational unit", approver, "3 attributes", of(func(r *x509.CertificateRequest) { r.Subject.OrganizationalUnit = []string{"x"} })},
		{"a DNS name", approver, "hub.example", of(func(r *x509.CertificateRequest) { r.DNSNames = []string{"hub.example"} })},
		{"an IP address", approver, "10.0.0.1", of(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} })},
		{"an email address", approver, "a@hub.example", of(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@hub.example"} })},
		{"server auth", approver, "server auth", certificate(func(csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.Usages = append(csr.Spec.Usages, certificatesv1.UsageServerAuth)
		})},
		{"a lifetime of two years", approver, "spec.expirationSeconds", certificate(func(csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.ExpirationSeconds = new(int32(2 * 31536000))
		})},
		{"no lifetime", approver, "spec.expirationSeconds", certificate(func(csr *certificatesv1.CertificateSigningRequest) { csr.Spec.ExpirationSeconds = nil })},
		{"a request of another name", policy, "metadata.name", certificate(func(csr *certificatesv1.CertificateSigningRequest) { csr.Name = "mine" })},
		{"the signer of kubelets", policy, "spec.signerName", signer(certificatesv1.KubeAPIServerClientKubeletSignerName)},
		{"the signer of kubelets' servers", policy, "spec.signerName", signer(certificatesv1.KubeletServingSignerName)},
		{"the legacy signer", policy, "spec.signerName", signer("example.com/anything")},
		{"a request with a finalizer", policy, "no finalizers", certificate(func(csr *certificatesv1.CertificateSigningRequest) { csr.Finalizers = []string{"example.com/stuck"} })},
		{"a watch of its own request", rbac, "watch", watch(&certificatesv1.CertificateSigningRequestList{},
			client.MatchingFields{"metadata.name": v1alpha1.AgentRequestPrefix + clusterA})},
		{"the approval of its own request", rbac, "approval", func(ctx context.Context, c client.WithWatch) error {
			csr := signingRequest(clusterA, nil)
			csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Tried"}}
			return c.SubResource("approval").Update(ctx, csr)
		}},
	}
}

func joinToken() []attempt {
	own := cluster(clusterA, v1alpha1.ClusterSpec{})
	return []attempt{
		{"read its own Cluster", allowed, "", get(own)},
		{"ask for the certificate of its own cluster", allowed, "", certificate(nil)},
		{"read Cluster `ab`", rbac, clusterAB, get(cluster(clusterAB, v1alpha1.ClusterSpec{}))},
		{"list all Clusters", rbac, "list", list(&v1alpha1.ClusterList{})},
		{"write the status of its own Cluster", rbac, "clusters", mergeStatus(own, `{"status":{"agentVersion":"x"}}`)},
		{"accept its own Cluster", rbac, "clusters", merge(own, `{"spec":{"acceptance":"Accepted"}}`)},
		{"list the Machines of its own cluster", rbac, "machines", list(&v1alpha1.MachineList{}, client.InNamespace(clusterA))},
		{"create the Lease of its own cluster", rbac, "leases", create(lease(clusterA, v1alpha1.AgentLeaseName))},
		{"report an event", rbac, "events", create(event(clusterA, about(clusterA, "Machine", machineName)))},
		{"read the join tokens", rbac, "secrets", list(&corev1.SecretList{}, client.InNamespace(metav1.NamespaceSystem))},
		{"ask for the certificate of `ab`", policy, "metadata.name", create(signingRequest(clusterAB, nil))},
		{"ask for the certificate of `b`", policy, "metadata.name", create(signingRequest(clusterB, nil))},
		{"ask for that of a simulated cluster", policy, "metadata.name", create(hostedRequest(clusterA, "hosted", "hosted"))},
		{"ask for the identity of `ab` in its own request", approver, "common name", certificate(func(csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.Request = newKey(identity(clusterAB)).request
		})},
		{"ask for its own identity and `system:masters`", server, "system:masters", of(func(r *x509.CertificateRequest) {
			r.Subject.Organization = append(r.Subject.Organization, "system:masters")
		})},
		{"ask for an identity of its own choice", approver, "common name", of(func(r *x509.CertificateRequest) { r.Subject.CommonName = "jane" })},
		{"read the certificate request of `ab`", rbac, clusterAB, get(signingRequest(clusterAB, nil))},
		{"list all certificate requests", rbac, "list", list(&certificatesv1.CertificateSigningRequestList{})},
		{"watch its own certificate request", rbac, "watch", watch(&certificatesv1.CertificateSigningRequestList{},
			client.MatchingFields{"metadata.name": v1alpha1.AgentRequestPrefix + clusterA})},
		{"make a token of its cluster's ServiceAccount", rbac, "token", token(clusterA, v1alpha1.AgentServiceAccount)},
	}
}

func account() []attempt {
	mine := machine(clusterS, machineName)
	return []attempt{
		{"read its own Cluster", allowed, "", get(cluster(clusterS, v1alpha1.ClusterSpec{}))},
		{"list the Machines of its namespace", allowed, "", list(&v1alpha1.MachineList{}, client.InNamespace(clusterS))},
		{"write the status of a Machine", allowed, "", mergeStatus(mine, `{"status":{"phase":"Running"}}`)},
		{"create its Lease", allowed, "", create(lease(clusterS, v1alpha1.AgentLeaseName))},
		{"make its next token", allowed, "", token(clusterS, v1alpha1.AgentServiceAccount)},
		{"change the spec of a Machine", policy, "spec: an agent", merge(mine, `{"spec":{"versions":{"kubelet":"v1.36.2"}}}`)},
		{"write the condition Ready of its own Cluster", policy, "status.conditions", updatePatch(cluster(clusterS, v1alpha1.ClusterSpec{}), clusterCondition(v1alpha1.ReadyCondition))},
		{"make a token of the ServiceAccount `default` of its namespace", rbac, "token", token(clusterS, "default")},
		{"make a token of the ServiceAccount in `b`", rbac, "token", token(clusterB, v1alpha1.AgentServiceAccount)},
		{"list the Machines of `b`", rbac, clusterB, list(&v1alpha1.MachineList{}, client.InNamespace(clusterB))},
		{"read Cluster `b`", rbac, clusterB, get(cluster(clusterB, v1alpha1.ClusterSpec{}))},
		{"ask for the certificate of its own cluster", approver, "spec.username", func(ctx context.Context, c client.WithWatch) error {
			return decision(ctx, c, signingRequest(clusterS, nil))
		}},
		{"ask for the certificate of `b`", policy, "metadata.name", create(signingRequest(clusterB, nil))},
	}
}
