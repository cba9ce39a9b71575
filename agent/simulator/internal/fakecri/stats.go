package fakecri

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerStats reports what a container uses.
func (r *Runtime) ContainerStats(_ context.Context, id string) (*runtimeapi.ContainerStats, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.findContainer(id)
	if err != nil {
		return nil, err
	}
	return r.statsOf(c), nil
}

// ListContainerStats reports what the containers use that run.
func (r *Runtime) ListContainerStats(_ context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var listed []*runtimeapi.ContainerStats
	for id, c := range r.containers {
		if r.endIfDue(c); c.listed.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		if filter.GetId() != "" && filter.GetId() != id {
			continue
		}
		if filter.GetPodSandboxId() != "" && filter.GetPodSandboxId() != c.listed.PodSandboxId {
			continue
		}
		if matchLabels(c.listed.Labels, filter.GetLabelSelector()) {
			listed = append(listed, r.statsOf(c))
		}
	}
	return listed, nil
}

// PodSandboxStats reports what a pod uses.
func (r *Runtime) PodSandboxStats(_ context.Context, id string) (*runtimeapi.PodSandboxStats, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.sandboxes[id]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "sandbox %q not found", id)
	}
	return r.sandboxStatsOf(s), nil
}

// ListPodSandboxStats reports what pods use.
func (r *Runtime) ListPodSandboxStats(_ context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var listed []*runtimeapi.PodSandboxStats
	for id, s := range r.sandboxes {
		if filter.GetId() != "" && filter.GetId() != id {
			continue
		}
		if matchLabels(s.listed.Labels, filter.GetLabelSelector()) {
			listed = append(listed, r.sandboxStatsOf(s))
		}
	}
	return listed, nil
}

// ListMetricDescriptors names no metrics.
func (r *Runtime) ListMetricDescriptors(context.Context) ([]*runtimeapi.MetricDescriptor, error) {
	return nil, nil
}

// ListPodSandboxMetrics reports no metrics.
func (r *Runtime) ListPodSandboxMetrics(context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
	return nil, nil
}

// statsOf is what a container uses. The caller holds the lock.
func (r *Runtime) statsOf(c *container) *runtimeapi.ContainerStats {
	now := r.options.Clock.Now()
	r.endIfDue(c)
	used := r.usedBy(c, now)
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Id: c.listed.Id, Metadata: c.listed.Metadata, Labels: c.listed.Labels, Annotations: c.listed.Annotations,
		},
		Cpu:           cpuStats(now, used),
		Memory:        memoryStats(now, used),
		WritableLayer: &runtimeapi.FilesystemUsage{Timestamp: now.UnixNano(), UsedBytes: valueOf(r.storageOf(c, now))},
	}
}

func cpuStats(now time.Time, used Used) *runtimeapi.CpuUsage {
	return &runtimeapi.CpuUsage{
		Timestamp:            now.UnixNano(),
		UsageCoreNanoSeconds: valueOf(used.CPUSeconds * float64(time.Second)),
		UsageNanoCores:       valueOf(used.CPU * float64(time.Second)),
	}
}

func memoryStats(now time.Time, used Used) *runtimeapi.MemoryUsage {
	return &runtimeapi.MemoryUsage{
		Timestamp: now.UnixNano(), WorkingSetBytes: valueOf(used.Memory), UsageBytes: valueOf(used.Memory), RssBytes: valueOf(used.Memory),
	}
}

func valueOf(value float64) *runtimeapi.UInt64Value {
	return &runtimeapi.UInt64Value{Value: uint64(max(value, 0))}
}

// sandboxStatsOf is what a pod uses. The caller holds the lock.
func (r *Runtime) sandboxStatsOf(s *sandbox) *runtimeapi.PodSandboxStats {
	now := r.options.Clock.Now()
	linux := &runtimeapi.LinuxPodSandboxStats{}
	var all Used
	for _, c := range r.containers {
		if c.listed.PodSandboxId != s.listed.Id {
			continue
		}
		r.endIfDue(c)
		one := r.usedBy(c, now)
		all.CPU, all.CPUSeconds, all.Memory = all.CPU+one.CPU, all.CPUSeconds+one.CPUSeconds, all.Memory+one.Memory
		if c.listed.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			linux.Containers = append(linux.Containers, r.statsOf(c))
		}
	}
	linux.Cpu, linux.Memory = cpuStats(now, all), memoryStats(now, all)
	return &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{
			Id: s.listed.Id, Metadata: s.listed.Metadata, Labels: s.listed.Labels, Annotations: s.listed.Annotations,
		},
		Linux: linux,
	}
}
