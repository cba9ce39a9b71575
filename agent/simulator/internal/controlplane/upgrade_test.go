package controlplane_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
)

// Claim: A control plane is upgraded component by component, the API server first. Broken: all ended at once; the scheduler first; a minor skipped.
func TestAnUpgradeGoesComponentByComponent(t *testing.T) {
	c := startCluster(t, t.TempDir(), withoutPods, "--emulated-version", "1.35")
	before := c.ready(t)
	if _, err := c.admin(t).CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for minor, why := range map[string]string{"1.37": "may not skip a minor", "1.34": "cannot go back", "1.99": "cannot emulate", "v1.36": "write it as 1.36"} {
		if _, stderr, code := simcluster(t, "upgrade", "--data-dir", c.dir, "--emulated-version", minor); code == 0 || !strings.Contains(stderr, why) {
			t.Errorf("upgrade to %s: exit code %d, %s; want %q", minor, code, stderr, why)
		}
	}
	succeed(t, "component", "stop", controlplane.Scheduler, "--data-dir", c.dir)
	if _, stderr, code := simcluster(t, "upgrade", "--data-dir", c.dir, "--emulated-version", "1.36"); code == 0 || !strings.Contains(stderr, "not healthy") {
		t.Errorf("upgrade of a control plane without scheduler: exit code %d, %s", code, stderr)
	}
	if now := c.ready(t).Components[controlplane.APIServer]; now != before.Components[controlplane.APIServer] {
		t.Errorf("the API server is %+v, and was %+v before a refused upgrade", now, before.Components[controlplane.APIServer])
	}
	succeed(t, "component", "start", controlplane.Scheduler, "--data-dir", c.dir)

	succeed(t, "upgrade", "--data-dir", c.dir, "--emulated-version", "1.36")
	after := c.ready(t)
	last := uint64(0)
	for _, name := range []string{controlplane.APIServer, controlplane.ControllerManager, controlplane.Scheduler} {
		component := after.Components[name]
		if component.EmulatedVersion != "1.36" || component.PID == before.Components[name].PID {
			t.Errorf("%s: %+v", name, component)
		}
		if started := startTime(t, component.PID); started < last {
			t.Errorf("%s started before what goes before it", name)
		} else {
			last = started
		}
	}
	if after.Components[controlplane.Etcd].PID != before.Components[controlplane.Etcd].PID {
		t.Error("the data store was started again")
	}
	version, err := c.admin(t).Discovery().ServerVersion()
	if err != nil || version.EmulationMinor != "36" {
		t.Errorf("the API server says %+v, %v", version, err)
	}
	if _, err := c.admin(t).CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	succeed(t, "upgrade", "--data-dir", c.dir)
	if now := c.ready(t).Components[controlplane.Scheduler]; !strings.HasPrefix(after.Version, "v"+now.EmulatedVersion+".") {
		t.Errorf("without a version it is that of the programs, not %s", now.EmulatedVersion)
	}
	c.stop(t)
}

// startTime is when a process started, in clock ticks since the machine did.
func startTime(t *testing.T, pid int) uint64 {
	t.Helper()
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	started, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return started
}
