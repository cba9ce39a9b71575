package machine

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestHooksAndForce(t *testing.T) {
	preDrain, preTerminate := v1alpha1.PreDrainHookPrefix+"backup", v1alpha1.PreTerminateHookPrefix+"release"
	hold := func(key string) func(*v1alpha1.Machine) {
		return func(m *v1alpha1.Machine) { m.Annotations = map[string]string{key: "backup-controller"} }
	}
	lift := func(b *env, machine *v1alpha1.Machine) {
		b.Expect(b.Client.Patch(b.T.Context(), machine, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":null}}`)))).To(Succeed())
	}
	t.Run("should wait for a pre-drain hook, and name it", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("hook-drain", hold(preDrain))
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.Clock.Step(DefaultStallAfter)
		b.Expect(b.ExpectReconciled(machine).RequeueAfter).To(BeZero(), "it waits for the annotation's removal")
		b.Expect(b.leaving(pod)).To(BeFalse())
		b.Expect(b.node(machine.Name).Spec.Unschedulable).To(BeFalse())
		b.Expect(machine).To(haveCondition(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonAwaitingHook))
		b.Expect(b.Events()).To(ConsistOf(ContainSubstring(preDrain)))
		lift(b, machine)
		b.ExpectReconciled(machine)
		b.Expect(b.leaving(pod)).To(BeTrue())
	})
	t.Run("should evict each pod once when a pre-drain hook was held for longer than the drain may take", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("hook-late", hold(preDrain))
		b.ready(machine)
		var pods []*corev1.Pod
		for i := range 51 {
			pods = append(pods, b.pod(machine.Name, fmt.Sprintf("web-%02d", i)))
		}
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.Clock.Step(3 * time.Hour)
		b.ExpectReconciled(machine)
		b.Expect(b.leaving(pods[0])).To(BeFalse())
		lift(b, machine)
		b.Expect(b.ExpectReconciled(machine).RequeueAfter).To(Equal(time.Second), "one round does not evict so many")
		b.Expect(b.instances()).To(HaveLen(1))
		b.ExpectReconciled(machine)
		for _, pod := range pods {
			b.Expect(b.leaving(pod)).To(BeTrue())
		}
		b.Expect(machine).To(haveCondition(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonDrainTimedOut))
		b.Expect(b.instances()).To(BeEmpty(), "the hook has used the time up")
	})
	t.Run("should drain, and then wait for a pre-terminate hook", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("hook-terminate", hold(preTerminate))
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.Expect(b.leaving(pod)).To(BeTrue())
		b.end(pod)
		b.ExpectReconciled(machine)
		b.Clock.Step(DefaultStallAfter)
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(HaveLen(1))
		b.Expect(machine).To(haveCondition(v1alpha1.MachineDrainedCondition, metav1.ConditionTrue, v1alpha1.ReasonAwaitingHook))
		lift(b, machine)
		b.remove(machine)
	})
	// Edge case: Force-deletion label; daemon sets' pods stay. Also: "should leave the pods of daemon sets and mirrors of static pods".
	t.Run("should ask for nothing when the user forces it", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("hook-force", hold(preDrain), func(m *v1alpha1.Machine) { m.Labels = map[string]string{v1alpha1.ForceDeletionLabel: "true"} })
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.delete(machine)
		b.remove(machine)
		b.Expect(b.leaving(pod)).To(BeFalse())
	})
	t.Run("should not drain throw-away nodes", func(t *testing.T) {
		b := newEnv(t)
		class := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "cattle"}}
		class.Spec.Provider, class.Spec.DrainPolicy = "fake", v1alpha1.SkipDrain
		b.ExpectApplied(class)
		machine := b.create("drain-skip", func(m *v1alpha1.Machine) {
			m.Spec.ProviderConfig = v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: class.Name}}
		})
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(BeEmpty())
		b.Expect(b.leaving(pod)).To(BeFalse())
		b.remove(machine)
	})
}
