package rendering

import (
	"time"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// authorityLifetime is that of a cluster's authority, certificateLifetime that of what it signs; cert-manager renews it, and the driver
	// too, when a third is left.
	authorityLifetime   = 10 * 365 * 24 * time.Hour
	certificateLifetime = 365 * 24 * time.Hour
	// Authority is the Certificate, or Certificate's name in simcluster's --pki-dir, of the authority.
	Authority = "ca"
	// agentCertificate is the agent's.
	agentCertificate = "agent"
	serviceAddress   = "172.30.0.1"
)

// Certificate is one of those that a cluster's authority signs.
type Certificate struct {
	// Name is that of simcluster's --pki-dir.
	Name string
	// User and Group are its subject.
	User, Group string
	// Server and Client are what it is for.
	Server, Client bool
	// Names and Addresses are those of a server.
	Names, Addresses []string
}

// Certificates are those that a cluster has beside its authority, the agent's among them.
func Certificates(cluster string) []Certificate {
	local, loopback := []string{"localhost"}, []string{"127.0.0.1"}
	service := ServerName(cluster)
	return []Certificate{
		{
			Name: "kube-apiserver", User: "kube-apiserver", Server: true, Addresses: append(loopback, "::1", serviceAddress),
			Names: append(local, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
				Name, Name+"."+NamespaceOf(cluster), service, service+".cluster.local"),
		},
		{Name: "kube-apiserver-kubelet-client", User: "kube-apiserver-kubelet-client", Client: true},
		{Name: "kube-controller-manager", User: "system:kube-controller-manager", Server: true, Client: true, Names: local, Addresses: loopback},
		{Name: "kube-scheduler", User: "system:kube-scheduler", Server: true, Client: true, Names: local, Addresses: loopback},
		{Name: "admin", User: "admin", Group: "system:masters", Client: true},
		{Name: agentCertificate, User: "hollowfleet-agent", Group: "hollowfleet:agents", Server: true, Client: true, Names: append(local, service), Addresses: loopback},
	}
}

// SecretOf is the Secret with a certificate of that name.
func SecretOf(certificate string) string { return Name + "-" + certificate }

// certManagerObjects have cert-manager make the authority of this cluster alone, and what it signs. Its key stays when it is renewed: what
// it has signed stays valid.
func (c Cluster) certManagerObjects() []client.Object {
	selfSigned := Name + "-selfsigned"
	authority := c.newCertificate(Authority, selfSigned)
	authority.Spec.IsCA, authority.Spec.CommonName = true, c.Name+"-ca"
	authority.Spec.Duration, authority.Spec.RenewBefore = &metav1.Duration{Duration: authorityLifetime}, &metav1.Duration{Duration: authorityLifetime / 2}
	authority.Spec.PrivateKey.RotationPolicy = certmanagerv1.RotationPolicyNever
	objects := []client.Object{
		c.newIssuer(selfSigned, certmanagerv1.IssuerConfig{SelfSigned: &certmanagerv1.SelfSignedIssuer{}}),
		authority,
		c.newIssuer(SecretOf(Authority), certmanagerv1.IssuerConfig{CA: &certmanagerv1.CAIssuer{SecretName: SecretOf(Authority)}}),
	}
	for _, each := range Certificates(c.Name) {
		made := c.newCertificate(each.Name, SecretOf(Authority))
		made.Spec.CommonName, made.Spec.DNSNames, made.Spec.IPAddresses = each.User, each.Names, each.Addresses
		made.Spec.Usages = []certmanagerv1.KeyUsage{certmanagerv1.UsageDigitalSignature}
		if each.Group != "" {
			made.Spec.Subject = &certmanagerv1.X509Subject{Organizations: []string{each.Group}}
		}
		if each.Server {
			made.Spec.Usages = append(made.Spec.Usages, certmanagerv1.UsageServerAuth)
		}
		if each.Client {
			made.Spec.Usages = append(made.Spec.Usages, certmanagerv1.UsageClientAuth)
		}
		objects = append(objects, made)
	}
	return objects
}

func (c Cluster) newIssuer(name string, config certmanagerv1.IssuerConfig) *certmanagerv1.Issuer {
	return &certmanagerv1.Issuer{
		TypeMeta: typeOf(certmanagerv1.SchemeGroupVersion.String(), certmanagerv1.IssuerKind), ObjectMeta: c.meta(name),
		Spec: certmanagerv1.IssuerSpec{IssuerConfig: config},
	}
}

func (c Cluster) newCertificate(name, issuer string) *certmanagerv1.Certificate {
	return &certmanagerv1.Certificate{
		TypeMeta: typeOf(certmanagerv1.SchemeGroupVersion.String(), certmanagerv1.CertificateKind), ObjectMeta: c.meta(SecretOf(name)),
		Spec: certmanagerv1.CertificateSpec{
			SecretName: SecretOf(name),
			SecretTemplate: &certmanagerv1.CertificateSecretTemplate{
				Labels: map[string]string{UIDLabel: c.UID}, Annotations: map[string]string{NameAnnotation: c.Name},
			},
			PrivateKey: &certmanagerv1.CertificatePrivateKey{Algorithm: certmanagerv1.ECDSAKeyAlgorithm, RotationPolicy: certmanagerv1.RotationPolicyAlways},
			IssuerRef:  cmmeta.IssuerReference{Group: certmanagerv1.SchemeGroupVersion.Group, Kind: certmanagerv1.IssuerKind, Name: issuer},
		},
	}
}
