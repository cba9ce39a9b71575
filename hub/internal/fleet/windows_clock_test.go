package fleet

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// An exclusion closes a cluster whatever its windows say, and one that has none.
func TestNothingIsBegunInAnExclusion(t *testing.T) {
	f := newEnv(t, 3, inSteps(2, 0))
	f.settle()
	f.Clock.SetTime(time.Date(2026, 12, 24, 1, 30, 0, 0, time.UTC))
	f.update(func(fleet *v1alpha1.MachineFleet) {
		notCanary := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "group", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		fleet.Spec.MaintenanceWindows = []v1alpha1.MaintenanceWindow{{
			Name: "night", Schedule: "0 1 * * *", Duration: metav1.Duration{Duration: 4 * time.Hour}, ClusterSelector: notCanary,
		}}
		fleet.Spec.MaintenanceExclusions = []v1alpha1.MaintenanceExclusion{{Name: "holidays", Start: "2026-12-24", End: "2026-12-26T02:00", TimeZone: "UTC"}}
	})
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.Expect(f.status().Message).To(ContainSubstring("opens at 2026-12-26T02:00:00Z"))
	f.Expect(f.status().Message).To(ContainSubstring("not selected by any of spec.maintenanceWindows, so upgraded at any time: " + f.clusters[0].Name))
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonOutsideMaintenanceWindow))

	f.Clock.SetTime(time.Date(2026, 12, 26, 2, 0, 0, 0, time.UTC))
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"), "their window has been open since 01:00")

	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.MaintenanceExclusions[0].End = "2026-12-23" })
	f.Expect(f.status().Message).To(ContainSubstring("spec.maintenanceExclusions[holidays].end: "))
}
