package csrapprover

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// SpentToken returns the ID of the join token with which a request was made, once an agent of the Cluster has been heard of
// since the certificate was issued: it has taken its certificate, for which it needed the token, and needs it no more.
func SpentToken(csr *certificatesv1.CertificateSigningRequest, cluster *v1alpha1.Cluster) (id string, spent bool) {
	approved := approvedAt(csr)
	if cluster == nil || csr.Name != RequestOf(cluster.Name) || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName ||
		approved == nil || len(csr.Status.Certificate) == 0 {
		return "", false
	}
	right, wrong := requester(csr.Spec.Username, csr.Spec.Groups, cluster.Name)
	if wrong != nil || right.Reason != ReasonJoined {
		return "", false
	}
	connected := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition)
	if connected == nil || connected.Status != metav1.ConditionTrue || connected.LastTransitionTime.Before(approved) {
		return "", false
	}
	return tokenUser.FindStringSubmatch(csr.Spec.Username)[1], true
}

// JoinsAgain tells whether a request lets an agent in with a join token although the Cluster has had one before.
func JoinsAgain(decision Decision, cluster *v1alpha1.Cluster) bool {
	return decision.Verdict == Approve && decision.Reason == ReasonJoined && cluster != nil &&
		meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterJoinedCondition)
}

// approvedAt is when a request was approved, nil if it was not.
func approvedAt(csr *certificatesv1.CertificateSigningRequest) *metav1.Time {
	for i := range csr.Status.Conditions {
		if condition := &csr.Status.Conditions[i]; condition.Type == certificatesv1.CertificateApproved {
			return &condition.LastUpdateTime
		}
	}
	return nil
}
