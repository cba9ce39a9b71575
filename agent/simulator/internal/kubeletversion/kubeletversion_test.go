package kubeletversion

import (
	"strings"
	"testing"

	"k8s.io/component-base/version"
)

// TestReport pins the name and the type of the variable inside component-base: with another library this
// package either does not link or does not change what Get returns.
func TestReport(t *testing.T) {
	for _, v := range []string{"v1.29.4", "v1.40.0", "v1.36.0-rc.1+build"} {
		if err := Report(v); err != nil {
			t.Fatalf("Report(%q): %v", v, err)
		}
		if got := version.Get().String(); got != v {
			t.Errorf("after Report(%q) the library says %q", v, got)
		}
	}
	if got := BuiltIn(); !strings.HasPrefix(got, "v1.37.") {
		t.Errorf("BuiltIn() = %q, want the version of the kubelet code and not the reported one", got)
	}
}

func TestReportRefusesWhatIsNoVersion(t *testing.T) {
	before := version.Get().String()
	for _, v := range []string{"", "latest", "1.29.4", "v1.29", "v1.29.4.5"} {
		if err := Report(v); err == nil {
			t.Errorf("Report(%q) succeeded", v)
		}
	}
	if got := version.Get().String(); got != before {
		t.Errorf("a refused version changed the reported one to %q", got)
	}
}
