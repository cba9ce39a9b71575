package group_test

import (
	"strings"
	"testing"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/group"
)

const (
	olderMinor = "1.36"
	exitUsage  = 2
)

// Claim: A group emulates one minor. Broken: the version not passed to the shared process.
func TestAGroupEmulatesOneMinor(t *testing.T) {
	b := newEnv(t, "--emulated-version", olderMinor)
	if status, err := group.FetchStatus(t.Context(), b.group); err != nil || status.EmulatedVersion != olderMinor {
		t.Errorf("the group: %+v, %v", status, err)
	}
	older := append(b.startArgs("c1"), "--emulated-version", olderMinor)
	if output, code := simcluster(t, older...); code != 0 {
		t.Fatalf("starting c1: exit code %d\n%s", code, output)
	}
	version, err := b.client(t, "c1").Discovery().ServerVersion()
	if err != nil || version.EmulationMajor+"."+version.EmulationMinor != olderMinor {
		t.Errorf("/version: %+v, %v", version, err)
	}
	for _, other := range [][]string{b.startArgs("c2"), append(b.startArgs("c2"), "--emulated-version", "1.35")} {
		output, code := simcluster(t, other...)
		if code != exitUsage || !strings.Contains(output, "emulates Kubernetes "+olderMinor) || !strings.Contains(output, "start another one with") {
			t.Errorf("%v: exit code %d\n%s", other, code, output)
		}
	}
	if !b.healthy(t, "c1") {
		t.Error("c1 is not healthy")
	}
}
