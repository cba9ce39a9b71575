package csrapprover

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
)

func TestSpentToken(t *testing.T) {
	approved := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type change func(*certificatesv1.CertificateSigningRequest, *v1alpha1.Cluster)
	tests := map[string]struct {
		change change
		want   string
	}{
		"should be the token of an agent that is connected": {func(*certificatesv1.CertificateSigningRequest, *v1alpha1.Cluster) {}, "abc123"},
		"should wait for the certificate":                   {func(r *certificatesv1.CertificateSigningRequest, _ *v1alpha1.Cluster) { r.Status.Certificate = nil }, ""},
		"should wait for the approval":                      {func(r *certificatesv1.CertificateSigningRequest, _ *v1alpha1.Cluster) { r.Status.Conditions = nil }, ""},
		"should wait for the agent":                         {func(_ *certificatesv1.CertificateSigningRequest, c *v1alpha1.Cluster) { c.Status.Conditions = nil }, ""},
		"should not take an agent that is silent for one": {func(_ *certificatesv1.CertificateSigningRequest, c *v1alpha1.Cluster) {
			c.Status.Conditions[0].Status = metav1.ConditionUnknown
		}, ""},
		"should not take the previous agent for the one that joins": {func(_ *certificatesv1.CertificateSigningRequest, c *v1alpha1.Cluster) {
			c.Status.Conditions[0].LastTransitionTime = metav1.NewTime(approved.Add(-time.Second))
		}, ""},
		"should leave a renewal alone": {func(r *certificatesv1.CertificateSigningRequest, _ *v1alpha1.Cluster) {
			r.Spec.Username, r.Spec.Groups = v1alpha1.AgentUserPrefix+"a", []string{v1alpha1.AgentGroupPrefix + "a"}
		}, ""},
		"should leave another cluster's token alone": {func(r *certificatesv1.CertificateSigningRequest, _ *v1alpha1.Cluster) {
			r.Spec.Groups = []string{v1alpha1.JoinGroupPrefix + "ab"}
		}, ""},
		"should leave another request alone": {func(r *certificatesv1.CertificateSigningRequest, _ *v1alpha1.Cluster) {
			r.Name = certrequest.NameOfAgent("ab")
		}, ""},
		"should leave another signer's alone": {func(r *certificatesv1.CertificateSigningRequest, _ *v1alpha1.Cluster) {
			r.Spec.SignerName = certificatesv1.KubeletServingSignerName
		}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: certrequest.NameOfAgent("a")}}
			csr.Spec.SignerName = certificatesv1.KubeAPIServerClientSignerName
			csr.Spec.Username, csr.Spec.Groups = "system:bootstrap:abc123", []string{v1alpha1.JoinGroupPrefix + "a"}
			csr.Status.Certificate = []byte("x")
			csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, LastUpdateTime: metav1.NewTime(approved)}}
			cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			cluster.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ClusterAgentConnectedCondition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(approved),
			}}
			test.change(csr, cluster)
			if id, spent := SpentToken(csr, cluster); id != test.want || spent != (test.want != "") {
				t.Errorf("got %q, %t, want %q", id, spent, test.want)
			}
		})
	}
	if id, spent := SpentToken(&certificatesv1.CertificateSigningRequest{}, nil); spent {
		t.Errorf("the token %q of no cluster", id)
	}
}

// Whatever stands in a request, it is decided on, and it gets no more than the one identity.
func FuzzRequestsAreDecided(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"), "system:bootstrap:abc123", v1alpha1.JoinGroupPrefix+"a")
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n"), v1alpha1.AgentUserPrefix+"a", v1alpha1.AgentGroupPrefix+"a")
	f.Add([]byte{}, "system:bootstrap:", "")
	f.Fuzz(func(t *testing.T, request []byte, user, group string) {
		csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: certrequest.NameOfAgent("a")}}
		csr.Spec.SignerName = certificatesv1.KubeAPIServerClientSignerName
		csr.Spec.Request, csr.Spec.Username, csr.Spec.Groups = request, user, []string{group}
		csr.Spec.Usages = certrequest.RequiredUsages
		csr.Spec.ExpirationSeconds = new(int32(MinExpirationSeconds))
		cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}}
		decision := Decide(csr, Objects{Cluster: cluster})
		if decision.Verdict == Approve && group != v1alpha1.JoinGroupPrefix+"a" && group != v1alpha1.AgentGroupPrefix+"a" {
			t.Errorf("approved for %q of group %q", user, group)
		}
		if decision.Message == "" || decision.Reason == "" {
			t.Errorf("no reason is told: %+v", decision)
		}
	})
}
