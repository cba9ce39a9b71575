package csrapprover

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

func TestWakesForOpenRequestsOfAgentsOnly(t *testing.T) {
	g := NewWithT(t)
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "hollowfleet-agent-a"}}
	g.Expect(isCandidate(csr)).To(BeTrue())
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved}}
	g.Expect(isCandidate(csr)).To(BeFalse(), "decided")
	g.Expect(isCandidate(&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr-x"}})).To(BeFalse())
	g.Expect(isCandidate(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "hollowfleet-agent-a"}})).To(BeFalse())
}

func TestWakesForTheClustersAcceptanceOnly(t *testing.T) {
	g := NewWithT(t)
	before := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	wakes := func(change func(*v1alpha1.Cluster)) bool {
		after := before.DeepCopy()
		change(after)
		return acceptanceChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	g.Expect(wakes(func(c *v1alpha1.Cluster) { c.Spec.Acceptance = v1alpha1.AcceptanceAccepted })).To(BeTrue())
	g.Expect(wakes(func(c *v1alpha1.Cluster) { c.Spec.AcceptancePolicy = v1alpha1.AcceptanceAuto })).To(BeTrue())
	g.Expect(wakes(func(c *v1alpha1.Cluster) { c.Spec.Acceptance = v1alpha1.AcceptanceDenied })).To(BeTrue())
	g.Expect(wakes(func(c *v1alpha1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })).To(BeTrue())
	g.Expect(wakes(func(c *v1alpha1.Cluster) {
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: v1alpha1.ClusterAgentConnectedCondition, Status: metav1.ConditionTrue, Reason: "x"})
	})).To(BeTrue())
	g.Expect(wakes(func(c *v1alpha1.Cluster) {
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "x"})
		c.Labels = map[string]string{"x": "y"}
	})).To(BeFalse())
	g.Expect(wakes(func(c *v1alpha1.Cluster) { c.Annotations = map[string]string{v1alpha1.LeavingAnnotation: "x"} })).To(BeTrue())
	g.Expect(wakes(func(c *v1alpha1.Cluster) {
		c.Annotations = map[string]string{v1alpha1.SimulatedClusterAnnotation: "a/x"}
	})).To(BeTrue())
}

func TestWakesForTheRemovalOfASimulatedClusterOnly(t *testing.T) {
	g := NewWithT(t)
	before := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "1"}}
	wakes := func(change func(*v1alpha1.SimulatedCluster)) bool {
		after := before.DeepCopy()
		change(after)
		return removalChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	g.Expect(wakes(func(s *v1alpha1.SimulatedCluster) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })).To(BeTrue())
	g.Expect(wakes(func(s *v1alpha1.SimulatedCluster) { s.UID = "2" })).To(BeTrue())
	g.Expect(wakes(func(s *v1alpha1.SimulatedCluster) { s.Status.ObservedGeneration = 2 })).To(BeFalse())
	g.Expect(removalChanged().Create(event.CreateEvent{Object: before})).To(BeTrue())
}

// A request waits for objects of three names, and each of them looks at it again.
func TestWhatARequestWaitsForWakesIt(t *testing.T) {
	g := NewWithT(t)
	one := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
	elsewhere := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ab", Name: "c"}}
	c := &Controller{Deps{Client: fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(one, elsewhere).Build()}}
	own, hosted := reconciler.Request("", "hollowfleet-agent-b"), reconciler.Request("", "hollowfleet-agent-a.b")
	g.Expect(requestOfHosted(t.Context(), one)).To(ConsistOf(hosted))
	simulated := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "b", Annotations: map[string]string{v1alpha1.SimulatedClusterAnnotation: "a/1"}}}
	g.Expect(c.requestsOf(t.Context(), simulated)).To(ConsistOf(own, hosted))
	host := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	g.Expect(c.requestsOf(t.Context(), host)).To(ConsistOf(reconciler.Request("", "hollowfleet-agent-a"), hosted))
}
