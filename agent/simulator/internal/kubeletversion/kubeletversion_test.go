package kubeletversion

import (
	"strings"
	"testing"
)

func TestBuiltIn(t *testing.T) {
	if got := BuiltIn(); !strings.HasPrefix(got, "v1.37.") {
		t.Errorf("BuiltIn() = %q, want the version of the kubelet code", got)
	}
}
