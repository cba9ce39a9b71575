package fakecri

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerStats reports that the container uses nothing.
func (r *Runtime) ContainerStats(_ context.Context, id string) (*runtimeapi.ContainerStats, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.findContainer(id)
	if err != nil {
		return nil, err
	}
	return r.statsOf(c), nil
}

// ListContainerStats reports that no container uses anything.
func (r *Runtime) ListContainerStats(_ context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var listed []*runtimeapi.ContainerStats
	for id, c := range r.containers {
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

// PodSandboxStats reports that the pod uses nothing.
func (r *Runtime) PodSandboxStats(_ context.Context, id string) (*runtimeapi.PodSandboxStats, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.sandboxes[id]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "sandbox %q not found", id)
	}
	return r.sandboxStatsOf(s), nil
}

// ListPodSandboxStats reports that no pod uses anything.
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

func (r *Runtime) statsOf(c *container) *runtimeapi.ContainerStats {
	now := r.options.Clock.Now().UnixNano()
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Id: c.listed.Id, Metadata: c.listed.Metadata, Labels: c.listed.Labels, Annotations: c.listed.Annotations,
		},
		Cpu:           &runtimeapi.CpuUsage{Timestamp: now, UsageCoreNanoSeconds: &runtimeapi.UInt64Value{}},
		Memory:        &runtimeapi.MemoryUsage{Timestamp: now, WorkingSetBytes: &runtimeapi.UInt64Value{}},
		WritableLayer: &runtimeapi.FilesystemUsage{Timestamp: now, UsedBytes: &runtimeapi.UInt64Value{}},
	}
}

func (r *Runtime) sandboxStatsOf(s *sandbox) *runtimeapi.PodSandboxStats {
	now := r.options.Clock.Now().UnixNano()
	stats := &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{
			Id: s.listed.Id, Metadata: s.listed.Metadata, Labels: s.listed.Labels, Annotations: s.listed.Annotations,
		},
		Linux: &runtimeapi.LinuxPodSandboxStats{
			Cpu:    &runtimeapi.CpuUsage{Timestamp: now, UsageCoreNanoSeconds: &runtimeapi.UInt64Value{}},
			Memory: &runtimeapi.MemoryUsage{Timestamp: now, WorkingSetBytes: &runtimeapi.UInt64Value{}},
		},
	}
	for _, c := range r.containers {
		if c.listed.PodSandboxId == s.listed.Id {
			stats.Linux.Containers = append(stats.Linux.Containers, r.statsOf(c))
		}
	}
	return stats
}
