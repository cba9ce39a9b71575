package kubeletversion

import (
	"strings"
	"testing"

	"k8s.io/component-base/version"

	"github.com/hollowfleet/hollowfleet/agent/simulator/minor"
)

func TestBuiltIn(t *testing.T) {
	if got := BuiltIn(); !strings.HasPrefix(got, "v"+minor.Kubernetes+".") {
		t.Errorf("BuiltIn() = %q, want the version of the kubelet code, which is of %s", got, minor.Kubernetes)
	}
	if version.DefaultKubeBinaryVersion != minor.Kubernetes {
		t.Errorf("Kubernetes %s is linked with what is for %s", version.DefaultKubeBinaryVersion, minor.Kubernetes)
	}
}
