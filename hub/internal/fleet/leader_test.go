package fleet

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/hub/internal/leader"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// elect makes a Lease, which a hub has got now, and returns it.
func (f *env) elect() (*leader.Lease, *coordinationv1.Lease) {
	f.T.Helper()
	held, err := leader.NewLease(testenv.Server().Config, "default", testenv.Name(), nil)
	f.Expect(err).NotTo(HaveOccurred())
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: held.Lock.LeaseMeta.Name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new(held.Lock.Identity()), LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: f.Clock.Now()},
		},
	}
	f.ExpectApplied(lease)
	return held, lease
}

// A hub is stopped after it has read everything. Another one is elected, sees a cluster frozen, and starts with the next. The first
// hub is resumed when the cluster is healthy again, and nothing that it would write has changed since.
// Claim: A resumed hub starts nothing beside its successor. Broken: the Lease is not read. Also: TestALeaseIsHeldUntilAnotherHubCanBeElected.
func TestAHubThatWasStoppedWritesNothingBesideTheNext(t *testing.T) {
	for name, isStoppedFirst := range map[string]bool{"before it reads the Lease": true, "after that": false} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 3, inSteps(1, 0))
			f.settle()
			f.upgrade("v1.37.0")
			f.ExpectReconciled(f.fleet)
			f.says(false, 0)
			held, lease := f.elect()
			stop := func() {
				f.Clock.Step(20 * time.Second)
				lease.Spec.HolderIdentity, lease.Spec.RenewTime = new("another"), &metav1.MicroTime{Time: f.Clock.Now()}
				f.ExpectApplied(lease)
				f.freeze(1, true)
				f.reconcileBeside()
				f.freeze(1, false)
				f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Progressing v1.37.0"))
			}
			f.leads = func(ctx context.Context) (time.Time, error) {
				if isStoppedFirst {
					stop()
				}
				until, err := held.HeldUntil(ctx)
				if !isStoppedFirst {
					stop()
				}
				return until, err
			}
			f.restart()
			_, err := f.Reconcile(f.fleet)
			f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Progressing v1.37.0"), "maxConcurrency is 1")
			f.Expect(err).To(MatchError(errNotLeading))
		})
	}
}

func TestALeaseIsHeldUntilAnotherHubCanBeElected(t *testing.T) {
	f := newEnv(t, 0, nil)
	held, lease := f.elect()
	until := func() time.Time {
		at, err := held.HeldUntil(t.Context())
		f.Expect(err).NotTo(HaveOccurred())
		return at
	}
	f.Expect(until()).To(BeTemporally("==", f.Clock.Now().Add(15*time.Second).Truncate(time.Microsecond)))
	lease.Spec.HolderIdentity = new("another")
	f.ExpectApplied(lease)
	f.Expect(until().IsZero()).To(BeTrue())
	f.ExpectDeleted(lease)
	f.Expect(until().IsZero()).To(BeTrue())
}
