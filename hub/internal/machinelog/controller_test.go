package machinelog

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

// Claim: The hub keeps twenty requests for logs of a namespace, each for five minutes. Broken: those of another namespace count; the oldest go first.
func TestRequestsExpireAndAreFew(t *testing.T) {
	f := testenv.NewEnv(t)
	cluster, other := f.AcceptedCluster(), f.AcceptedCluster()
	ask := func(namespace, name string) *v1alpha1.MachineLogRequest {
		request := &v1alpha1.MachineLogRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.MachineLogRequestSpec{MachineName: "m"}}
		f.ExpectApplied(request)
		return request
	}
	for i := range mostKept {
		ask(cluster.Name, fmt.Sprintf("a-%02d", i))
	}
	ask(other.Name, "theirs")
	controller := &Controller{Client: f.Client, Clock: f.Clock}
	work := func() reconcile.Result {
		result, err := controller.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: cluster.Name}})
		f.Expect(err).NotTo(HaveOccurred())
		return result
	}
	left := func(namespace string) []v1alpha1.MachineLogRequest {
		list := &v1alpha1.MachineLogRequestList{}
		f.Expect(f.Client.List(t.Context(), list, client.InNamespace(namespace))).To(Succeed())
		return list.Items
	}
	// The API server gave them their times, and a busy one takes a while for all of them.
	f.Clock.SetTime(left(cluster.Name)[0].CreationTimestamp.Time)
	f.Expect(work().RequeueAfter).To(And(BeNumerically(">", 4*time.Minute), BeNumerically("<=", lifetime+2*time.Second)))
	f.Expect(left(cluster.Name)).To(HaveLen(mostKept))
	ask(cluster.Name, "z-one-more")
	work()
	f.Expect(left(cluster.Name)).To(And(HaveLen(mostKept), Not(ContainElement(HaveField("Name", "z-one-more")))), "who asked before is not put off")

	f.Clock.SetTime(time.Now().Add(lifetime + 2*time.Second))
	f.Expect(work().RequeueAfter).To(BeZero())
	f.Expect(left(cluster.Name)).To(BeEmpty())
	f.Expect(left(other.Name)).To(HaveLen(1), "another namespace is another reconcile")
}

func TestTheAnswersAreNotCached(t *testing.T) {
	g := NewWithT(t)
	kept, err := Shrink(&v1alpha1.MachineLogRequest{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: v1alpha1.MachineLogRequestStatus{Log: "secret"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kept).To(Equal(&v1alpha1.MachineLogRequest{ObjectMeta: metav1.ObjectMeta{Name: "a"}}))
	g.Expect(Shrink("other")).To(Equal("other"))
}
