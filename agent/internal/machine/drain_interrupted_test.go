package machine

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestDrainIsInterrupted(t *testing.T) {
	t.Run("should stop at the next eviction when it freezes in the middle", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-freeze")
		b.ready(machine)
		pods := []*corev1.Pod{b.pod(machine.Name, "web-1"), b.pod(machine.Name, "web-2"), b.pod(machine.Name, "web-3")}
		left := func() (left int) {
			for _, pod := range pods {
				if !b.leaving(pod) {
					left++
				}
			}
			return left
		}
		b.delete(machine)
		b.evicting = func() { b.frozen.frozen = true }
		b.ExpectReconciled(machine)
		b.Expect(left()).To(Equal(2), "one eviction was on its way, and no other")
		b.ExpectReconciled(machine)
		b.Expect(left()).To(Equal(2))
		b.Expect(b.instances()).To(HaveLen(1))
		b.evicting, b.frozen.frozen = nil, false
		b.ExpectReconciled(machine)
		b.Expect(left()).To(BeZero(), "the drain continues after the thaw")
	})
	t.Run("should take a freeze at the deadline for a freeze", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-freeze-late")
		b.ready(machine)
		b.pod(machine.Name, "web-1")
		b.pod(machine.Name, "web-2")
		b.delete(machine)
		b.Clock.Step(3 * time.Hour)
		b.evicting = func() { b.frozen.frozen = true }
		b.ExpectReconciled(machine)
		b.Clock.Step(DefaultStallAfter)
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(HaveLen(1))
		b.Expect(b.Events()).To(BeEmpty(), "it is not the drain's time that is over")
	})
	t.Run("should not claim a cordon that is a person's", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-cordoned")
		node := b.ready(machine)
		b.Expect(b.Client.Patch(b.T.Context(), node, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`)))).To(Succeed())
		b.pod(machine.Name, "web")
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.Expect(b.node(machine.Name).Annotations).NotTo(HaveKey(v1alpha1.NodeCordonedAnnotation))
	})
	t.Run("should continue after a crash in the middle", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-crash")
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.delete(machine)
		b.faults["patch *v1.Node"] = 1
		_, err := b.tryReconcile(machine)
		b.Expect(err).To(MatchError(ContainSubstring("cordoning the node")))
		b.Expect(b.leaving(pod)).To(BeFalse(), "evicted from a node that takes new pods")
		b.start()
		b.ExpectReconciled(machine)
		b.start()
		b.end(pod)
		b.remove(machine)
	})
	t.Run("should not drain again what is on its way out", func(t *testing.T) {
		b := newEnv(t)
		b.driver.Linger()
		machine := b.create("drain-once")
		b.ready(machine)
		b.delete(machine)
		b.ExpectReconciled(machine)
		late := b.pod(machine.Name, "late")
		b.ExpectReconciled(machine)
		b.Expect(b.leaving(late)).To(BeFalse())
		b.driver.Finish(machine.Name)
		b.remove(machine)
	})
}

func TestDrainIsOrderedByALiveMachine(t *testing.T) {
	t.Run("should evict nothing when only the cache says that the machine is to be deleted", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-stale")
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		cached := machine.DeepCopy()
		cached.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		_, err := b.controller.Reconcile(b.T.Context(), cached)
		b.Expect(err).NotTo(HaveOccurred())
		b.Expect(b.leaving(pod)).To(BeFalse())
		b.Expect(b.node(machine.Name).Spec.Unschedulable).To(BeFalse())
	})
	t.Run("should stop when the machine is missing on the hub in the middle of a drain", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-missing")
		b.ready(machine)
		b.pod(machine.Name, "web-1")
		b.delete(machine)
		b.ExpectReconciled(machine)
		cached := machine.DeepCopy()
		late := b.pod(machine.Name, "web-2")
		b.Expect(b.Client.Patch(b.T.Context(), machine, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		_, err := b.controller.Reconcile(b.T.Context(), cached)
		b.Expect(err).NotTo(HaveOccurred())
		b.Expect(b.leaving(late)).To(BeFalse())
	})
}
