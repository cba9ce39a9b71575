package clientcert

import (
	"errors"
	"fmt"
	"io/fs"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// awaited says what a certificate request waits for. cluster is nil for a renewal.
func awaited(cluster *v1alpha1.Cluster, csr *certificatesv1.CertificateSigningRequest, request *observedRequest) string {
	switch {
	case !request.Mine:
		return fmt.Sprintf("another agent: CertificateSigningRequest %s of %q is open; it is taken away when it stays so for a minute", csr.Name, csr.Spec.Username)
	case request.State == requestApproved:
		return fmt.Sprintf("the certificate: CertificateSigningRequest %s is approved, and the hub's signer has not issued it yet", csr.Name)
	case request.State == requestDenied:
		return "approval: " + refusal(csr, certificatesv1.CertificateDenied, "denied")
	case request.State == requestFailed:
		return "the certificate: " + refusal(csr, certificatesv1.CertificateFailed, "not signed")
	case cluster != nil && !cluster.Accepted():
		return fmt.Sprintf("acceptance: Cluster %s is %s; accept it with 'kubectl hollow cluster accept %s'", cluster.Name, cluster.Spec.Acceptance, cluster.Name)
	}
	return fmt.Sprintf("approval of CertificateSigningRequest %s by the hub", csr.Name)
}

func refusal(csr *certificatesv1.CertificateSigningRequest, of certificatesv1.RequestConditionType, word string) string {
	for _, condition := range csr.Status.Conditions {
		if condition.Type == of {
			return fmt.Sprintf("CertificateSigningRequest %s was %s: %s: %s", csr.Name, word, condition.Reason, condition.Message)
		}
	}
	return fmt.Sprintf("CertificateSigningRequest %s was %s", csr.Name, word)
}

// explain says what a person can do about an error of the hub.
func (k *Manager) explain(as hubIdentity, err error) error {
	remedy := fmt.Sprintf("make a new one with 'kubectl hollow cluster join %s --again' and put it at %s", k.Cluster, k.Bootstrap)
	switch {
	case as == noIdentity && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoToken)):
		return fmt.Errorf("a bootstrap kubeconfig, because the hub does not accept the stored credential, if there is one: %s: %w", remedy, err)
	case as == joiningIdentity && apierrors.IsUnauthorized(err):
		return fmt.Errorf("a good join token: the hub does not know the one at %s; it has expired, was removed, or is for another hub: %s: %w", k.Bootstrap, remedy, err)
	case as == joiningIdentity && apierrors.IsForbidden(err):
		return fmt.Errorf("the hub's permission: the token at %s is not for Cluster %s, or that Cluster is denied or does not exist: %w", k.Bootstrap, k.Cluster, err)
	case as == ownIdentity && apierrors.IsUnauthorized(err):
		return fmt.Errorf("a new credential: the hub does not accept the present one: %w", err)
	case k.kind() == serviceAccountToken && apierrors.IsNotFound(err):
		return fmt.Errorf("the hub to make the agent's ServiceAccount, which it does once Cluster %s is accepted: %w", k.Cluster, err)
	}
	return fmt.Errorf("the hub: %w", err)
}
