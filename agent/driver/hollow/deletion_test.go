package hollow

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// beforeDeletion calls change with the first object of a type that the driver is about to delete.
func (b *env) beforeDeletion(g *WithT, change func(client.Object)) {
	watching, err := client.NewWithWatch(agenttest.Environment(b.t).Config, client.Options{Scheme: b.client.Scheme()})
	g.Expect(err).NotTo(HaveOccurred())
	b.environment.Host.Client = interceptor.NewClient(watching, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			change(object)
			return c.Delete(ctx, object, options...)
		},
	})
}

// Edge case: Old versions caused deletions. Also: agent/internal/machine TestADeletionThatMeetsAChangeIsTriedAgainSoonAndIsNoProblem.
func TestWhatChangedSinceItWasReadIsNotDeleted(t *testing.T) {
	// another gives an object to another cluster, whose agent shares the host namespace.
	another := func(g *WithT, b *env, object client.Object) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+v1alpha1.ClusterNameLabel+`":"c2"}}}`))
		g.Expect(b.client.Patch(t.Context(), object, patch)).To(Succeed())
	}
	refused := MatchError(ContainSubstring(`is not of cluster "c1"`))
	t.Run("the pod of a machine that is deleted", func(t *testing.T) {
		g, b := NewWithT(t), newEnv(t)
		request := b.request("m1")
		_, err := b.Create(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
		b.beforeDeletion(g, func(client.Object) { another(g, b, b.pod(g, "m1")) })
		g.Expect(b.Delete(t.Context(), request.Machine)).To(Satisfy(apierrors.IsConflict))
		g.Expect(b.pod(g, "m1").DeletionTimestamp).To(BeNil())
		g.Expect(b.Delete(t.Context(), request.Machine)).To(refused)
	})
	t.Run("its secret", func(t *testing.T) {
		g, b := NewWithT(t), newEnv(t)
		request := b.request("m1")
		_, err := b.Create(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
		b.beforeDeletion(g, func(object client.Object) {
			if _, ok := object.(*corev1.Secret); ok {
				another(g, b, b.secret(g, "m1"))
			}
		})
		g.Expect(b.Delete(t.Context(), request.Machine)).To(Satisfy(apierrors.IsConflict))
		b.secret(g, "m1")
		g.Expect(b.Delete(t.Context(), request.Machine)).To(refused)
	})
	t.Run("a pod of an older configuration", func(t *testing.T) {
		g, b := NewWithT(t), newEnv(t)
		request := b.request("m1")
		_, err := b.Create(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
		b.beforeDeletion(g, func(client.Object) { another(g, b, b.pod(g, "m1")) })
		request.Class = classOf(`{` + head + `,"maxPods":50}`)
		_, err = b.Update(t.Context(), request)
		g.Expect(err).To(Satisfy(apierrors.IsConflict))
		g.Expect(b.pod(g, "m1").DeletionTimestamp).To(BeNil())
	})
}
