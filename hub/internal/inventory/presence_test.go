package inventory

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestWorkThatIsCutShortIsNoError(t *testing.T) {
	g := NewWithT(t)
	failed := errors.New("said by the test")
	ctx, cancel := context.WithCancel(t.Context())
	reconciler := whileServed(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, failed
	}), func(context.Context) bool { return true })
	_, err := reconciler.Reconcile(ctx, reconcile.Request{})
	g.Expect(err).To(MatchError(failed))
	cancel()
	_, err = reconciler.Reconcile(ctx, reconcile.Request{})
	g.Expect(err).NotTo(HaveOccurred())
}

func TestARefusalByAKindThatIsBeingRemovedIsNoError(t *testing.T) {
	g := NewWithT(t)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "managedclusters"}, "c1", errors.New("the definition is terminating"))
	var served bool
	reconciler := whileServed(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, forbidden
	}), func(context.Context) bool { return served })
	_, err := reconciler.Reconcile(t.Context(), reconcile.Request{})
	g.Expect(err).NotTo(HaveOccurred())
	served = true
	_, err = reconciler.Reconcile(t.Context(), reconcile.Request{})
	g.Expect(err).To(MatchError(forbidden), "the kind stays: the refusal is real")
}
