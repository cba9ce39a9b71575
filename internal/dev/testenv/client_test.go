package testenv_test

import (
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

// A test that reads what was before its write proves nothing.
func TestACachedClientReadsWhatItWrote(t *testing.T) {
	g := testenv.NewCachedEnv(t)
	c := g.Client
	// both reads the Clusters of a label with the client and from the API server.
	both := func(label string, more ...client.ListOption) (read, stored *v1alpha1.ClusterList) {
		read, stored = &v1alpha1.ClusterList{}, &v1alpha1.ClusterList{}
		more = append(more, client.MatchingLabels{"of": label})
		g.Expect(c.List(t.Context(), read, more...)).To(Succeed())
		g.Expect(testenv.Server().Client.List(t.Context(), stored, more...)).To(Succeed())
		return read, stored
	}
	for range 20 {
		label := testenv.Name()
		for range 3 {
			cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: testenv.Name(), Labels: map[string]string{"of": label}, Finalizers: []string{"hollowfleet.io/test"}}}
			g.ExpectApplied(cluster)
			g.ExpectConditionApplied(cluster, v1alpha1.ReadyCondition, metav1.ConditionTrue, "X")
		}
		read, stored := both(label)
		g.Expect(read.Items).To(Equal(stored.Items))
		few, fewStored := both(label, client.Limit(2))
		g.Expect(few.Items).To(Equal(fewStored.Items))
		g.Expect(few.Continue).NotTo(BeEmpty(), "there are more")
		all, _ := both(label, client.Limit(3))
		g.Expect(all.Continue).To(BeEmpty())

		applied := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"acceptance": "Accepted"}}}
		applied.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Cluster"))
		applied.SetName(read.Items[0].Name)
		g.Expect(c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("test"), client.ForceOwnership)).To(Succeed())
		named, _ := both(label, client.MatchingFields{"metadata.name": applied.GetName()})
		g.Expect(named.Items).To(HaveExactElements(HaveField("Spec.Acceptance", v1alpha1.AcceptanceAccepted)))

		cluster := &stored.Items[1]
		g.Expect(c.Delete(t.Context(), cluster)).To(Succeed())
		read, _ = both(label)
		g.Expect(read.Items[1].DeletionTimestamp).NotTo(BeNil())
		before := read.Items[1].DeepCopy()
		read.Items[1].Finalizers = nil
		g.Expect(c.Patch(t.Context(), &read.Items[1], client.MergeFrom(before))).To(Succeed())
		g.Expect(apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster))).To(BeTrue())
		read, stored = both(label)
		g.Expect(read.Items).To(Equal(stored.Items))
		g.Expect(read.Items).To(HaveLen(2))
	}
}
