package hollow

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// A Secret or pod that somebody else made under a Machine's name keeps the Machine from being made, and not from being deleted.
// Claim: A foreign object of a Machine's name is named and left. Broken: a foreign object is an error like any other, or is taken for own; a foreign pod, or Secret, keeps the deletion; labels alone, or annotations alone, make an object own; not said at once. Also: TestAnOwnObjectWithoutItsLabelIsNotLeftBehind; agent/internal/machine TestANameThatIsTakenIsSaidAtOnceAndIsNoError.
func TestAForeignObjectOfAMachinesNameIsNamedAndLeft(t *testing.T) {
	for name, object := range map[string]client.Object{
		"secret": &corev1.Secret{Data: map[string][]byte{"password": []byte("x")}},
		"pod":    &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			g, b := NewWithT(t), newEnv(t)
			object.SetNamespace(b.namespace)
			object.SetName("victim")
			g.Eventually(func() error { return b.client.Create(t.Context(), object) }).Should(Succeed())
			before := object.DeepCopyObject()
			_, err := b.Create(t.Context(), b.request("victim"))
			var conflict *driver.NameConflictError
			g.Expect(errors.As(err, &conflict)).To(BeTrue(), "%v", err)
			g.Expect(conflict.Problem).To(And(ContainSubstring(b.namespace+"/victim"), ContainSubstring("was not created by an agent")))

			g.Expect(b.Delete(t.Context(), b.request("victim").Machine)).To(Succeed())
			_, err = b.Get(t.Context(), b.request("victim"))
			g.Expect(err).To(MatchError(driver.ErrNotFound), "there is nothing of the Machine")
			g.Expect(b.client.Get(t.Context(), client.ObjectKeyFromObject(object), object)).To(Succeed())
			g.Expect(object.GetUID()).To(Equal(before.(client.Object).GetUID()))
			g.Expect(object.GetDeletionTimestamp()).To(BeNil())
			g.Expect(object.GetLabels()).NotTo(HaveKey(v1alpha1.ClusterNameLabel))
		})
	}
}

// Labels and annotations that somebody has changed make nothing foreign: the Machine must not go and leave its pod behind.
func TestAnOwnObjectWithoutItsLabelIsNotLeftBehind(t *testing.T) {
	for name, change := range map[string]string{
		"without labels":                                         `{"labels":null}`,
		"with the label of another cluster":                      `{"labels":{"` + v1alpha1.ClusterNameLabel + `":"c2"}}`,
		"without annotations, and with its Machine's label only": `{"annotations":null,"labels":{"` + v1alpha1.ClusterNameLabel + `":null}}`,
	} {
		t.Run(name, func(t *testing.T) {
			g, b := NewWithT(t), newEnv(t)
			_, err := b.Create(t.Context(), b.request("m1"))
			g.Expect(err).NotTo(HaveOccurred())
			for _, object := range []client.Object{b.pod(g, "m1"), b.secret(g, "m1")} {
				patch := func(metadata string) {
					g.Expect(b.client.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":`+metadata+`}`)))).To(Succeed())
				}
				patch(change)
				g.Expect(b.Delete(t.Context(), b.request("m1").Machine)).To(MatchError(ContainSubstring("is not of cluster")))
				patch(`{"labels":{"` + v1alpha1.ClusterNameLabel + `":"c1"}}`)
			}
		})
	}
}
