package machinedeployment

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestBlindCacheNeverMakesASecondSet(t *testing.T) {
	blind := &interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
		return nil
	}}
	f := newEnv(t, 2, blind)
	for range 4 {
		f.ExpectReconciled(f.deployment)
		f.Clock.Step(time.Minute)
	}
	f.Expect(f.list()).To(HaveLen(1))
	f.Expect(f.Writes.Counts()).To(HaveKeyWithValue("create MachineSet", 1))
	f.Expect(f.refresh().Status.CollisionCount).To(BeNil())
}

// Even if the live read misses the set, the name keeps it from being made twice.
func TestSetThatAppearsMeanwhileIsNoCollision(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.ExpectReconciled(f.deployment)
	made := f.list()
	now := f.Clock.Now()
	logic, err := New(Deps{Client: f.Client, Live: interceptor.NewClient(f.Client, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
			return nil
		},
	}), Recorder: f.Recorder, Agents: f.agents, Clock: testclock.NewFakePassiveClock(now)})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(logic.act(t.Context(), f.refresh(), &scope{}, nil)).To(Succeed())
	f.Expect(f.list()).To(Equal(made))
	f.Expect(f.deployment.Status.CollisionCount).To(BeNil())
}

func TestTakesAnotherNameWhenTheHashCollides(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.ExpectReconciled(f.deployment)
	first := f.list()[0]
	f.ExpectDeleted(&first)
	foreign := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: first.Name}, Spec: *first.Spec.DeepCopy()}
	foreign.Spec.Template.Spec.Versions.Kubelet = "v1.20.0"
	f.ExpectApplied(foreign)
	f.ExpectReconciled(f.deployment)
	f.Expect(f.refresh().Status.CollisionCount).To(HaveValue(BeEquivalentTo(1)))
	f.ExpectReconciled(f.deployment)
	var names []string
	for _, set := range f.list() {
		if metav1.IsControlledBy(&set, f.deployment) {
			names = append(names, set.Name)
		}
	}
	f.Expect(names).To(HaveLen(1))
	f.Expect(names[0]).NotTo(Equal(first.Name))
	f.rest()
	f.Expect(f.list()).To(HaveLen(2), "the name stays chosen")
}
