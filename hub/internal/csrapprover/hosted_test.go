package csrapprover

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// asksFor creates the request of the env's cluster's agent for the agent of a simulated one, with a new key.
func (f *env) asksFor(name string) *certificatesv1.CertificateSigningRequest {
	f.T.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	f.Expect(err).NotTo(HaveOccurred())
	csr, err := certrequest.NewForAgent(certrequest.NameOfHostedAgent(f.cluster.Name, name), name, key, 10*time.Minute)
	f.Expect(err).NotTo(HaveOccurred())
	host := f.acting(v1alpha1.AgentUserPrefix+f.cluster.Name, "system:masters", v1alpha1.AgentGroupPrefix+f.cluster.Name)
	f.Expect(host.Create(f.T.Context(), csr)).To(Succeed())
	return csr
}

// TestAHostedJoinWaitsForWhatTheHubMakes goes from nothing to a certificate, and once more.
// Claim: A hosted join waits for its Cluster. Broken: it is denied; its key is not recorded.
func TestAHostedJoinWaitsForWhatTheHubMakes(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	one := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, Name: testenv.Name()}}
	made := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: one.Name}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}}
	csr := f.asksFor(one.Name)
	f.request = csr
	f.ExpectReconciled(f.request)
	f.Expect(f.decided(csr).Type).To(BeEmpty(), "there is no SimulatedCluster yet")
	f.Expect(f.Recorder.Events).To(Receive(And(HavePrefix("Normal JoinRequested"), ContainSubstring("there is no SimulatedCluster"))), "its host is told")
	f.ExpectApplied(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.cluster.Name}})
	f.ExpectApplied(one)
	f.ExpectReconciled(f.request)
	f.Expect(f.decided(csr).Type).To(BeEmpty(), "the hub has not made the Cluster yet")
	f.Expect(f.Recorder.Events).To(Receive(HavePrefix("Normal JoinRequested")))
	made.Annotations = map[string]string{v1alpha1.SimulatedClusterAnnotation: one.ProofOfSimulation()}
	f.ExpectApplied(made)
	before := counted(Approve, ReasonHosted)
	f.ExpectReconciled(f.request)
	f.Expect(f.decided(csr)).To(And(HaveField("Type", certificatesv1.CertificateApproved), HaveField("Reason", ReasonHosted)))
	f.Expect(counted(Approve, ReasonHosted)).To(Equal(before + 1))
	f.Expect(f.Recorder.Events).To(Receive(HavePrefix("Normal CertificateApproved")))
	f.ExpectExists(made)
	f.Expect(made.Status.JoinKey).To(Equal(keyOf(csr.Spec.Request)))
	f.Eventually(func() []byte {
		f.ExpectExists(csr)
		return csr.Status.Certificate
	}).WithTimeout(time.Minute).ShouldNot(BeEmpty(), "the hub's own controller signs it")

	f.ExpectDeleted(csr)
	f.request = f.asksFor(one.Name)
	f.ExpectReconciled(f.request)
	f.Expect(f.Recorder.Events).To(Receive(HavePrefix("Warning JoinedAgain")), "another key")
	f.Expect(f.decided(f.request).Type).To(Equal(certificatesv1.CertificateApproved))
}

// A stolen host could else have any agent's identity by a SimulatedCluster of that name.
func TestAHostGetsNoCertificateOfAClusterOfOthers(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	other := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: testenv.Name()}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}}
	f.ExpectApplied(other)
	f.ExpectApplied(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.cluster.Name}})
	f.ExpectApplied(&v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, Name: other.Name}})
	f.request = f.asksFor(other.Name)
	f.ExpectReconciled(f.request)
	f.Expect(f.decided(f.request)).To(And(HaveField("Type", certificatesv1.CertificateDenied), HaveField("Reason", ReasonNotHosted)))
	f.Expect(f.Recorder.Events).To(Receive(HavePrefix("Warning CertificateDenied")))
	f.ExpectExists(other)
	f.Expect(other.Status.JoinKey).To(BeEmpty())
}
