package hollownode

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Claim: A heartbeat takes managed fields away, and asks for nothing of the kind when there are none. Broken: an API server accounts for the fields of each heartbeat.
func TestHeartbeatsHaveNoManagedFields(t *testing.T) {
	for name, managed := range map[string][]metav1.ManagedFieldsEntry{
		"managed":   {{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate}, {Manager: "other"}},
		"unmanaged": nil,
	} {
		t.Run(name, func(t *testing.T) {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "a", ManagedFields: managed}}
			client := fake.NewClientset(lease.DeepCopy())
			leases := unmanagedCoordination{client.CoordinationV1()}.Leases(lease.Namespace)
			if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			actions := client.Actions()
			update, ok := actions[len(actions)-1].(clienttesting.UpdateAction)
			if !ok {
				t.Fatalf("the last request is a %T, want an update", actions[len(actions)-1])
			}
			sent, ok := update.GetObject().(*coordinationv1.Lease)
			if !ok {
				t.Fatalf("a %T is sent", update.GetObject())
			}
			// An API server takes one empty entry for none at all.
			if got := sent.ManagedFields; len(managed) == 0 && len(got) != 0 || len(managed) > 0 && (len(got) != 1 || got[0] != (metav1.ManagedFieldsEntry{})) {
				t.Errorf("managed fields are %+v", got)
			}
			if len(lease.ManagedFields) != len(managed) {
				t.Error("the caller's Lease has changed")
			}
		})
	}
}
