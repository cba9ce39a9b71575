package fleet

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// An approval that is taken back between two writes keeps the second from being made; what has started is followed.
func TestAnApprovalIsTakenBackBetweenTwoWrites(t *testing.T) {
	for name, takeBack := range map[string]func(*env, *v1alpha1.FleetApproval) error{
		"deleted": func(f *env, a *v1alpha1.FleetApproval) error { return f.Client.Delete(f.T.Context(), a) },
		"deleted, with a finalizer": func(f *env, a *v1alpha1.FleetApproval) error {
			a.Finalizers = []string{"example.com/test"}
			if err := f.Client.Update(f.T.Context(), a); err != nil {
				return err
			}
			return f.Client.Delete(f.T.Context(), a)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := waitForApproval(t)
			f.status()
			given := f.approvalOf("production")
			f.ExpectApplied(given)
			t.Cleanup(func() {
				given.Finalizers = nil
				_ = f.Client.Update(context.WithoutCancel(t.Context()), given)
			})
			begun := 0
			f.faults.Patch = func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if _, is := object.(*v1alpha1.MachineDeployment); is {
					if begun++; begun == 1 {
						f.Expect(takeBack(f, given)).To(Succeed())
					}
				}
				return c.Patch(ctx, object, patch, options...)
			}
			f.restart()
			for range 3 {
				f.ExpectReconciled(f.fleet)
			}
			f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Succeeded v1.36.2"))
			f.says(false, 1)
			f.ExpectReconciled(f.fleet)
			f.status()
			f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.37.0, Succeeded v1.36.2"), "what has started is followed")
			f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonAwaitingApproval), f.fleet.Status.Message)
			approved := f.rollouts()[1].Approvals
			f.Expect(approved).To(ConsistOf(And(HaveField("Approval", given.Name), HaveField("By", "alice"), HaveField("TakenBack", Not(BeEmpty())))))
		})
	}
}

// An approval that cannot be decoded counts for nothing, and stops no fleet.
func TestAnApprovalThatCannotBeDecodedOpensNothing(t *testing.T) {
	f := waitForApproval(t)
	f.status()
	good := f.approvalOf("production")
	bad := &unstructured.Unstructured{}
	bad.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("FleetApproval"))
	bad.SetName(testenv.Name())
	bad.Object["spec"] = map[string]any{
		"fleet": good.Spec.Fleet, "fleetUID": good.Spec.FleetUID, "revision": good.Spec.Revision, "rollout": good.Spec.Rollout,
		"group": good.Spec.Group, "approver": []any{"alice"},
	}
	f.Expect(testenv.Server().Loosely(t.Context(), func(ctx context.Context) error { return f.Client.Create(ctx, bad) }, "fleetapprovals.hollowfleet.io")).To(Succeed())
	t.Cleanup(func() { f.Expect(f.Client.Delete(context.WithoutCancel(t.Context()), bad)).To(Succeed()) })
	f.restart()
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.ExpectApplied(good)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))
}

// Approvals that count for nothing any more are never deleted by the hub. They cost it little memory, and a reconcile nothing.
// Claim: 10,000 old approvals cost a reconcile nothing. Broken: they are listed without an index.
func TestTenThousandApprovalsCostNoReconcileItsTime(t *testing.T) {
	testenv.Long(t)
	const many, perApproval = 10000, 4 << 10
	f := waitForApproval(t)
	f.status()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(crowdWriters)
	for i := range many {
		old := f.approvalOf("production")
		old.Spec.Rollout = int64(1000 + i)
		group.Go(func() error { return f.Client.Create(ctx, old) })
	}
	f.Expect(group.Wait()).To(Succeed())
	f.ExpectApplied(f.approvalOf("production"))
	heap := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	cached, err := cache.New(testenv.Server().Config, cache.Options{Scheme: scheme.New(), DefaultTransform: cache.TransformStripManagedFields()})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(indexApprovals(cached)).To(Succeed())
	go func() { _ = cached.Start(t.Context()) }()
	f.Expect(cached.WaitForCacheSync(t.Context())).To(BeTrue())
	list := func() error {
		found, err := rollout.Approvals(t.Context(), cached, f.fleet)
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("%d approvals are found", len(found))
		}
		return err
	}
	f.Expect(list()).To(Succeed())
	size := int(heap()-before) / many
	took := testenv.CPUTime(t, 5, list)
	t.Logf("%d approvals take %d bytes each, and finding those of a rollout %s", many, size, took)
	f.Expect(size).To(BeNumerically("<", perApproval))
	f.Expect(took).To(BeNumerically("<", 20*time.Millisecond))
	f.Expect(f.Client.DeleteAllOf(t.Context(), &v1alpha1.FleetApproval{})).To(Succeed())
}
