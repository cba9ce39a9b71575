package fakecri

import (
	"context"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Claim: A container whose pod says that it uses more memory than its limit is killed for it. Broken: without the limit; every container is measured.
func TestAContainerThatUsesTooMuchMemoryIsKilled(t *testing.T) {
	f := newEnv(t, Options{RequestsOf: func(string, string, string) Requests { return Requests{Memory: 100 << 20} }})
	f.setCIDR("10.1.0.0/24")
	config := podConfig("grows", map[string]string{MemoryUsageAnnotation: "curve 0s=10Mi 10s=110Mi"})
	plain := podConfig("plain", nil)
	limited := func(config *runtimeapi.PodSandboxConfig, limit int64) string {
		id, err := f.CreateContainer(context.Background(), f.run(config), &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, Image: &runtimeapi.ImageSpec{Image: "sha256:abc"},
			Linux: &runtimeapi.LinuxContainerConfig{Resources: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: limit}},
		}, config)
		if err == nil {
			err = f.StartContainer(context.Background(), id)
		}
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	expect := func(id string, state runtimeapi.ContainerState, reason string, code int32) {
		t.Helper()
		if c := f.container(id); c.State != state || c.Reason != reason || c.ExitCode != code {
			t.Errorf("got %s, %q, %d", c.State, c.Reason, c.ExitCode)
		}
	}
	grows, free, half := limited(config, 60<<20), limited(config, 0), limited(plain, 40<<20)
	f.advance(4 * time.Second)
	expect(grows, runtimeapi.ContainerState_CONTAINER_RUNNING, "", 0)
	f.advance(2 * time.Second)
	expect(grows, runtimeapi.ContainerState_CONTAINER_EXITED, "OOMKilled", 137)
	f.advance(time.Minute)
	expect(free, runtimeapi.ContainerState_CONTAINER_RUNNING, "", 0)
	expect(half, runtimeapi.ContainerState_CONTAINER_RUNNING, "", 0)
}
