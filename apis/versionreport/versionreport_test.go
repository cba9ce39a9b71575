package versionreport

import (
	"strings"
	"testing"
)

// Claim: The report of a control plane's versions can be written by its administrators, and what is not a version is not taken for one. Broken: taken as it is.
func TestParse(t *testing.T) {
	report := Report{APIServer: "v1.37.1", ControllerManager: "v1.36", Scheduler: "v1.36", Problem: "it is not healthy"}
	if got := Parse(report.Data()); got != report {
		t.Errorf("read %+v, want %+v", got, report)
	}
	for name, text := range map[string]string{"a word": "latest", "long": "v1.37.1-" + strings.Repeat("x", 300), "two lines": "v1.37\nv1.38", "empty": ""} {
		if got := Parse(map[string]string{apiServer: text, controllerManager: text, scheduler: text}); got != (Report{}) {
			t.Errorf("%s: read %+v", name, got)
		}
	}
}
