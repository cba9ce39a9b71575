package csrapprover

import (
	"testing"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// TestAFloodOfRequestsIsOneSeriesOfEvents has a client with a join token create and delete its request again and again.
// Claim: Repeated requests with a join token make one Event. Broken: the UID of each request is in its Event.
// Edge case: A stolen join token filled the hub with Events.
func TestAFloodOfRequestsIsOneSeriesOfEvents(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	clientset, err := kubernetes.NewForConfig(f.Server.Config)
	f.Expect(err).NotTo(HaveOccurred())
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clientset.EventsV1()})
	f.Expect(broadcaster.StartRecordingToSinkWithContext(t.Context())).To(Succeed())
	t.Cleanup(broadcaster.Shutdown)
	recorder := broadcaster.NewRecorder(scheme.New(), "flood")
	logic, err := New(Deps{Client: f.Client, Recorder: recorder, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = logic
	for range 10 {
		csr := f.asks("another")
		f.ExpectReconciled(f.request)
		f.Expect(f.decided(csr).Type).To(Equal(certificatesv1.CertificateDenied))
		f.ExpectDeleted(csr)
	}
	tokenDeletedEvent("last").Send(recorder, f.cluster)
	count := func() map[string]int {
		all, err := clientset.EventsV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		f.Expect(err).NotTo(HaveOccurred())
		reasons := map[string]int{}
		for _, event := range all.Items {
			if event.Regarding.Name == f.cluster.Name {
				reasons[event.Reason]++
			}
		}
		return reasons
	}
	f.Eventually(count).Should(HaveKeyWithValue("JoinTokenDeleted", 1), "the last event is stored")
	f.Expect(count()).To(HaveKeyWithValue("CertificateDenied", 1))
}
