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
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "managedclusters"}, "c1", errors.New("the definition is terminating"))
	failed := errors.New("said by the test")
	for name, row := range map[string]struct {
		err            error
		ended, removed bool
		want           error
	}{
		"an error":                             {err: failed, want: failed},
		"an error beside the removal":          {err: failed, removed: true, want: failed},
		"after the end":                        {err: failed, ended: true},
		"refused by a kind that is removed":    {err: forbidden, removed: true},
		"refused by a kind that stays: a fact": {err: forbidden, want: forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if row.ended {
				cancel()
			}
			reconciler := untilRemoved(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, row.err
			}), func(context.Context) bool { return row.removed })
			result, err := reconciler.Reconcile(ctx, reconcile.Request{})
			if row.want == nil {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				NewWithT(t).Expect(result.RequeueAfter).To(Equal(removedRetry), "lost, should the hub not start again")
			} else {
				NewWithT(t).Expect(err).To(MatchError(row.want))
			}
		})
	}
}
