package hollownode_test

import (
	"testing"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
)

func TestCheckKubeletVersion(t *testing.T) {
	for version, valid := range map[string]bool{
		"v1.36.2": true, "v1.36.0-rc.1+build": true, "v999999999.999999999.999999999": true, "v1.36.2-0.x-y.-.01a+build.05": true,
		"": false, "latest": false, "1.36.2": false, "v1.36": false, "v1.36.2.1": false, "v1.99999999999999999999.0": false,
	} {
		if err := hollownode.CheckKubeletVersion(version); (err == nil) != valid {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func TestCheckContainerRuntimeVersion(t *testing.T) {
	for version, valid := range map[string]bool{
		"2.1.4": true, "v2.1": true, "v20.010.7.1-rc.1+azure~2": true, "999999999.999999999": true,
		"": false, "latest": false, "2": false, "02.1": false, "2.99999999999999999999": false,
	} {
		if err := hollownode.CheckContainerRuntimeVersion(version); (err == nil) != valid {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func TestMinorOf(t *testing.T) {
	for version, want := range map[string]string{
		"v1.36.2": "1.36", "1.36.2": "1.36", "v1.36.0-rc.1": "1.36", "v1.37.1+build.4": "1.37", "1.36": "1.36", "": "", "one": "", "v1": "",
	} {
		if got := hollownode.MinorOf(version); got != want {
			t.Errorf("MinorOf(%q) = %q, want %q", version, got, want)
		}
	}
}
