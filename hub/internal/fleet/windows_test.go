package fleet

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestNothingIsBegunOutsideOfAWindow(t *testing.T) {
	f := newEnv(t, 3, inSteps(2, 0)) // Its clock starts at midnight.
	f.settle()
	f.Clock.SetTime(time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC))
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.MaintenanceWindows = []v1alpha1.MaintenanceWindow{{
			Name: "night", Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: time.Hour},
			ClusterSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "group", Operator: metav1.LabelSelectorOpDoesNotExist}}},
		}}
	})
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	result := f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"), "the canary has no window")
	f.Expect(result.RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", 2*time.Hour)))
	f.Expect(f.status().Message).To(And(ContainSubstring("outside of their maintenance windows"), ContainSubstring("2026-01-10T02:00:00Z")))
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonOutsideMaintenanceWindow))

	f.Clock.SetTime(time.Date(2026, 1, 10, 2, 0, 0, 0, time.UTC))
	f.label(2, "group", "later")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))
	f.Clock.SetTime(time.Date(2026, 1, 10, 3, 0, 0, 0, time.UTC))
	f.says(false, 1)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.37.0, Progressing v1.37.0"), "what has started continues")

	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.MaintenanceWindows[0].Schedule = "0 0 30 2 *" })
	f.Expect(f.status().Message).To(ContainSubstring("never occurs"))
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.StalledCondition).Reason).To(Equal(v1alpha1.ReasonInvalidFleet))
}

func windowOf(schedule, zone string, duration time.Duration) *v1alpha1.MaintenanceWindow {
	return &v1alpha1.MaintenanceWindow{Name: "w", Schedule: schedule, TimeZone: zone, Duration: metav1.Duration{Duration: duration}}
}
