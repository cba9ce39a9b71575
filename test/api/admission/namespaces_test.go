package admission_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func namespaceOf(cluster string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster, Labels: map[string]string{
		v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub, v1alpha1.ClusterNameLabel: cluster,
	}}}
}

// Edge case: A deleted namespace stayed Terminating.
func TestTheNamespaceOfAClusterIsNotDeletedWhileTheClusterExists(t *testing.T) {
	g, c := NewWithT(t), testenv.Server().Client
	kept, other := cluster(uniqueName()), cluster(uniqueName())
	for _, one := range []*v1alpha1.Cluster{kept, other} {
		g.Expect(c.Create(t.Context(), one)).To(Succeed())
		g.Expect(c.Create(t.Context(), namespaceOf(one.Name))).To(Succeed())
	}
	kept.Status.Machines = &v1alpha1.MachineCounts{Total: 8}
	g.Expect(c.Status().Update(t.Context(), kept)).To(Succeed())
	g.Expect(config.Apply(t.Context(), c, config.Admission, "admission")).To(Succeed())
	remove := func(name string, options ...client.DeleteOption) error {
		return c.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, options...)
	}
	var err error
	g.Eventually(func() error {
		err = remove(kept.Name, client.DryRunAll)
		return err
	}).WithTimeout(2*time.Minute).Should(MatchError(ContainSubstring("with 8 Machine(s)")), "the API server reads policy and Clusters")
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue())
	g.Expect(err).To(MatchError(And(ContainSubstring("metadata.name"), ContainSubstring("kubectl hollow cluster remove "+kept.Name))))
	g.Expect(remove(kept.Name)).NotTo(Succeed())

	foreign := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: uniqueName()}}
	g.Expect(c.Create(t.Context(), foreign)).To(Succeed())
	g.Expect(remove(foreign.Name)).To(Succeed(), "other namespaces do not matter")
	free := namespaceOf(uniqueName())
	g.Expect(c.Create(t.Context(), free)).To(Succeed())
	g.Expect(remove(free.Name)).To(Succeed(), "there is no Cluster of that name")

	g.Expect(c.Delete(t.Context(), other)).To(Succeed())
	g.Eventually(func() error { return remove(other.Name) }).WithTimeout(time.Minute).Should(Succeed(), "its Cluster was removed")

	allowed := namespaceOf(kept.Name)
	g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(allowed), allowed)).To(Succeed())
	allowed.Annotations = map[string]string{v1alpha1.AllowNamespaceDeletionAnnotation: "true"}
	g.Expect(c.Update(t.Context(), allowed)).To(Succeed())
	g.Expect(remove(kept.Name)).To(Succeed(), "a person allows it")
	g.Expect(remove(kept.Name)).To(Or(Succeed(), Satisfy(apierrors.IsConflict), Satisfy(apierrors.IsNotFound)), "it is being deleted already")
}
