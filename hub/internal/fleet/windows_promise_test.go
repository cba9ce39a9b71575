package fleet

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// The windows and the labels with which a rollout was started are stored: a hub that is started again keeps to them.
// Edge case: A window or its label is removed mid-rollout.
func TestAWindowThatIsTakenAwayHoldsUntilARetry(t *testing.T) {
	f := newEnv(t, 3, inSteps(2, 0))
	f.label(1, "group", "production")
	f.label(2, "group", "production")
	f.settle()
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.MaintenanceWindows = []v1alpha1.MaintenanceWindow{*windowOf("0 2 * * *", "UTC", time.Hour)}
		fleet.Spec.MaintenanceWindows[0].ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"group": "production"}}
	})
	f.Clock.SetTime(time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC))
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	waiting := "Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"
	f.Expect(f.phases()).To(Equal(waiting))

	f.label(1, "group", "")
	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.MaintenanceWindows = nil })
	f.ExpectReconciled(f.fleet)
	f.restart()
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal(waiting))
	f.Expect(f.status().Message).To(And(ContainSubstring("2026-01-10T02:00:00Z"), ContainSubstring("from the start of the rollout"), ContainSubstring("spec.retriedAt")))
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonOutsideMaintenanceWindow))

	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.RetriedAt = &metav1.Time{Time: f.Clock.Now().Truncate(time.Second)}
	})
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))
}

// The promised window ends between two writes.
func TestThePromisedWindowIsLookedAtBeforeEachWrite(t *testing.T) {
	f := newEnv(t, 3, nil)
	f.settle()
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.MaintenanceWindows = []v1alpha1.MaintenanceWindow{*windowOf("0 0 * * *", "UTC", time.Hour)}
	})
	f.Clock.SetTime(time.Date(2026, 1, 10, 0, 30, 0, 0, time.UTC))
	f.freeze(1, true)
	f.freeze(2, true)
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.MaintenanceWindows = nil })
	f.freeze(1, false)
	f.freeze(2, false)
	f.faults.Patch = func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
		if _, is := object.(*v1alpha1.MachineDeployment); is {
			f.Clock.SetTime(time.Date(2026, 1, 10, 1, 0, 0, 0, time.UTC))
		}
		return c.Patch(ctx, object, patch, options...)
	}
	f.restart()
	for range 3 {
		f.ExpectReconciled(f.fleet)
	}
	f.Expect(f.phases()).To(Equal("Progressing v1.37.0, Progressing v1.37.0, Succeeded v1.36.2"))
}
