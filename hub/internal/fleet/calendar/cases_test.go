package calendar

import (
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Each window opens at a time that the clocks leave out on that day of 2027.
func TestWindowsOfPublicCasesOpenOnTheirDay(t *testing.T) {
	looked := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for file, windows := range map[string]int{"02-dst-window.yaml": 1, "02-sibling-zones.yaml": 4} {
		text, err := os.ReadFile("../../../../test/cases/testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		fleet := &v1alpha1.MachineFleet{}
		if err := yaml.UnmarshalStrict(text, fleet); err != nil {
			t.Fatal(err)
		}
		if len(fleet.Spec.MaintenanceWindows) != windows {
			t.Fatalf("%s has %d windows", file, len(fleet.Spec.MaintenanceWindows))
		}
		for _, window := range fleet.Spec.MaintenanceWindows {
			zone, err := time.LoadLocation(window.TimeZone)
			if err != nil {
				t.Fatal(err)
			}
			schedule, err := Parse(window.Schedule, zone)
			if err != nil {
				t.Fatal(err)
			}
			opens := (&Window{Schedule: schedule, Duration: window.Duration.Duration}).OpensAt(looked).In(zone)
			fields := strings.Fields(window.Schedule)
			if day := opens.Format("2006 2 1"); day != "2027 "+fields[2]+" "+fields[3] {
				t.Errorf("%s of %s, %q in %s, opens at %s", window.Name, file, window.Schedule, window.TimeZone, opens)
			}
		}
	}
}
