package fakecri

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/usage"
)

// used returns what a container's stats say: cores, core seconds and bytes.
func (f env) used(id string) Used {
	f.Helper()
	stats, err := f.ContainerStats(context.Background(), id)
	if err != nil {
		f.Fatal(err)
	}
	const second = float64(time.Second)
	return Used{
		CPU: float64(stats.Cpu.UsageNanoCores.Value) / second, CPUSeconds: float64(stats.Cpu.UsageCoreNanoSeconds.Value) / second,
		Memory: float64(stats.Memory.WorkingSetBytes.Value),
	}
}

func (f env) expectUsed(what string, got, want Used) {
	f.Helper()
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, b) }
	if !near(got.CPU, want.CPU) || !near(got.CPUSeconds, want.CPUSeconds) || !near(got.Memory, want.Memory) {
		f.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

// Claim: A container uses what its pod says, else half of its request; a Node what its containers use. Broken: a removed container takes its counter away; an init container follows the annotations; a container that has ended still counts.
func TestContainersUseWhatTheirPodsSay(t *testing.T) {
	roles := map[string]Role{"init": InitContainer, "side": Sidecar}
	f := newEnv(t, Options{
		RoleOf:     func(_, _, container string) Role { return roles[container] },
		RequestsOf: func(string, string, string) Requests { return Requests{CPU: 2, Memory: 100 << 20} },
	})
	f.setCIDR("10.1.0.0/24")
	plain := podConfig("plain", nil)
	half := f.start(f.run(plain), "main", plain)
	config := podConfig("said", map[string]string{CPUUsageAnnotation: "curve 0s=1 10s=3", MemoryUsageAnnotation: "10%"})
	sandbox := f.run(config)
	said, side := f.start(sandbox, "main", config), f.start(sandbox, "side", config)
	f.advance(10 * time.Second)
	f.expectUsed("a container without annotations", f.used(half), Used{1, 10 + usage.StartCPU, 50 << 20})
	f.expectUsed("a container with annotations", f.used(said), Used{3, 20 + usage.StartCPU, 10 << 20})
	f.expectUsed("its sidecar", f.used(side), Used{1, 10 + usage.StartCPU, 50 << 20})
	f.expectUsed("all", f.Used(), Used{5, 40 + 3*usage.StartCPU, 110 << 20})
	pod, err := f.PodSandboxStats(t.Context(), sandbox)
	if err != nil || len(pod.Linux.Containers) != 2 || pod.Linux.Memory.WorkingSetBytes.Value != 60<<20 {
		t.Errorf("the pod: %v, %v", pod, err)
	}

	if err := f.StopContainer(t.Context(), said, 0); err != nil {
		t.Fatal(err)
	}
	f.advance(10 * time.Second)
	f.expectUsed("a container that has ended", f.used(said), Used{0, 20 + usage.StartCPU, 0})
	listed, err := f.ListContainerStats(t.Context(), &runtimeapi.ContainerStatsFilter{PodSandboxId: sandbox})
	if err != nil || len(listed) != 1 || listed[0].Attributes.Id != side {
		t.Errorf("the stats of a pod with a container that has ended: %v, %v", listed, err)
	}
	if err := f.RemovePodSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	f.expectUsed("all, after a pod was removed", f.Used(), Used{1, 60 + 3*usage.StartCPU, 50 << 20})
}

func TestAResizeChangesTheUse(t *testing.T) {
	requests := Requests{CPU: 1}
	f := newEnv(t, Options{RequestsOf: func(string, string, string) Requests { return requests }})
	f.setCIDR("10.1.0.0/24")
	config := podConfig("p", nil)
	id := f.start(f.run(config), "main", config)
	f.advance(10 * time.Second)
	requests.CPU = 4
	if err := f.UpdateContainerResources(t.Context(), id, &runtimeapi.ContainerResources{}); err != nil {
		t.Fatal(err)
	}
	f.advance(10 * time.Second)
	f.expectUsed("the container", f.used(id), Used{2, 25 + usage.StartCPU, usage.AssumedMemory / 2})
	if err := f.UpdateContainerResources(t.Context(), "gone", nil); err == nil {
		t.Error("a container that is gone is resized")
	}
}

func TestBadCurvesAreRefusedByName(t *testing.T) {
	f := newEnv(t, Options{})
	f.setCIDR("10.1.0.0/24")
	for name, text := range map[string]string{CPUUsageAnnotation: "a lot", MemoryUsageAnnotation: "", StorageUsageAnnotation: "full", LogAnnotation: "hello"} {
		_, err := f.RunPodSandbox(t.Context(), podConfig("p", map[string]string{name: text}), "")
		if err == nil || !strings.Contains(err.Error(), "annotation "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Claim: The writable layer of a container is what its pod says, until the container is removed. Broken: it is empty; it goes when the container ends.
func TestContainersWriteWhatTheirPodsSay(t *testing.T) {
	f := newEnv(t, Options{RequestsOf: func(string, string, string) Requests { return Requests{Storage: 4 << 30} }})
	f.setCIDR("10.1.0.0/24")
	layer := func(id string) uint64 {
		stats, err := f.ContainerStats(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return stats.WritableLayer.UsedBytes.Value
	}
	plain := podConfig("plain", nil)
	none := f.start(f.run(plain), "main", plain)
	config := podConfig("said", map[string]string{StorageUsageAnnotation: "curve 0s=0 10s=50%"})
	sandbox := f.run(config)
	said := f.start(sandbox, "main", config)
	f.advance(5 * time.Second)
	if layer(none) != 0 || layer(said) != 1<<30 || f.UsedStorage() != 1<<30 {
		t.Errorf("got %d, %d, all %d", layer(none), layer(said), f.UsedStorage())
	}
	if err := f.StopContainer(t.Context(), said, 0); err != nil {
		t.Fatal(err)
	}
	f.advance(5 * time.Second)
	if layer(said) != 1<<30 {
		t.Errorf("a container that has ended has %d", layer(said))
	}
	if err := f.RemovePodSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	if f.UsedStorage() != 0 {
		t.Errorf("a removed one leaves %d", f.UsedStorage())
	}
}
