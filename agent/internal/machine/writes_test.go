package machine

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestWrites(t *testing.T) {
	g, clock := NewWithT(t), clocktesting.NewFakeClock(time.Now())
	w := newWrites(clock)
	object := func(version string) *v1alpha1.Machine {
		machine := &v1alpha1.Machine{}
		machine.UID, machine.ResourceVersion = "u", version
		return machine
	}
	g.Expect(w.stale(object("5"))).To(BeFalse(), "nothing was written")
	w.record("u", "9")
	g.Expect(w.stale(object("5"))).To(BeTrue())
	g.Expect(w.stale(object("10"))).To(BeFalse(), "a later write by another has been seen, 10 is more than 9")
	w.record("u", "9")
	clock.Step(writeMemory + time.Second)
	g.Expect(w.stale(object("5"))).To(BeFalse(), "a hub that was restored would be waited for for ever")
	w.record("u", "not a number")
	g.Expect(w.stale(object("5"))).To(BeFalse())
	for _, uid := range []types.UID{"a", "b"} {
		w.record(uid, "1")
	}
	clock.Step(writeMemory + time.Second)
	w.record("c", "1")
	g.Expect(w.byUID).To(HaveLen(1), "old memories pile up")
}

func TestReadinessIsNotLostToACacheThatIsBehind(t *testing.T) {
	b := newBed(t)
	machine := b.create("behind")
	b.reconcile(machine)
	node := b.join(machine)
	b.reconcile(machine)
	b.Expect(machine.Spec.ProviderID).NotTo(BeNil())
	registered := b.node(machine.Name)
	b.cachedNodes = map[string]*corev1.Node{node.Name: nil}
	b.setReady(node, corev1.ConditionTrue)
	b.reconcile(machine)
	b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady), "what the cache lacks is asked of the API server")
	b.writes()

	b.cachedNodes[node.Name] = registered
	for range 2 {
		b.reconcile(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady), "the cache goes through what has been")
	}
	b.Expect(b.writes()).To(BeEmpty())

	b.cachedNodes = nil
	b.setReady(node, corev1.ConditionFalse)
	b.reconcile(machine)
	b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady), "the cache has come as far")
}

func TestAStaleCacheIsNotActedOn(t *testing.T) {
	b := newBed(t)
	machine := b.create("stale-cache")
	before := machine.DeepCopy()
	b.ready(machine)
	calls := len(b.driver.Calls())
	b.writes()
	b.driver.Finish(machine.Name)
	next, err := b.controller.Reconcile(b.t.Context(), before)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(next.After).To(Equal(conflictRetry))
	b.Expect(b.driver.Calls()).To(HaveLen(calls))
	b.Expect(b.writes()).To(BeEmpty())
}
