package machineset

import (
	"context"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// squatter takes the names of the first Machines to be made, just before they are.
func (f *fixture) squatter(takes int64, asked *atomic.Int64) *interceptor.Funcs {
	return &interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if asked.Add(1) <= takes {
			other := &v1alpha1.Machine{Spec: object.(*v1alpha1.Machine).Spec}
			other.Namespace, other.Name = object.GetNamespace(), object.GetName()
			if err := f.direct.Create(ctx, other); err != nil {
				return err
			}
		}
		return c.Create(ctx, object, options...)
	}}
}

func TestAMachineWhoseNameIsTakenGetsAnother(t *testing.T) {
	f, asked := newFixture(t, 3, nil), atomic.Int64{}
	f.runner = f.another(f.squatter(2, &asked))
	f.reconcile()
	f.Expect(asked.Load()).To(BeEquivalentTo(5))
	f.Expect(f.owned()).To(HaveLen(3))
	f.Expect(f.told()).To(ConsistOf(ContainSubstring("Created 3 machines")), "no user needs to know")
}

func TestNamesThatAreAllTakenAreARefusal(t *testing.T) {
	f, asked := newFixture(t, 1, nil), atomic.Int64{}
	f.runner = f.another(f.squatter(nameDraws, &asked))
	_, err := f.tryReconcile()
	f.Expect(err).To(MatchError(ContainSubstring("already exists")))
	f.Expect(asked.Load()).To(BeEquivalentTo(nameDraws))
	f.Expect(f.owned()).To(BeEmpty())
}

// owned returns the names of the Machines that the set owns.
func (f *fixture) owned() []string {
	f.t.Helper()
	var names []string
	for _, machine := range f.machines() {
		if len(machine.OwnerReferences) > 0 && machine.OwnerReferences[0].UID == f.set.UID {
			names = append(names, machine.Name)
		}
	}
	return names
}
