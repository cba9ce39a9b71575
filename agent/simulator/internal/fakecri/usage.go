package fakecri

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/usage"
)

// CPUUsageAnnotation, MemoryUsageAnnotation and StorageUsageAnnotation, on a pod, are the curves of what each of its main containers uses; the
// last one of its writable layer. Without them containers use half of the CPU and memory that they request, and no storage.
const (
	CPUUsageAnnotation     = "hollowfleet.io/cpu-usage"
	MemoryUsageAnnotation  = "hollowfleet.io/memory-usage"
	StorageUsageAnnotation = "hollowfleet.io/ephemeral-storage-usage"
)

// Requests are what a container requests: cores and bytes, or 0.
type Requests struct{ CPU, Memory, Storage float64 }

// curves are what a pod's annotations say of what its main containers use; nil where they say nothing.
type curves struct{ cpu, memory, storage *usage.Curve }

// curvesOf reads a pod's annotations.
func curvesOf(annotations map[string]string) (curves, error) {
	cpu, cpuErr := curveOf(annotations, CPUUsageAnnotation, usage.CPU)
	memory, memoryErr := curveOf(annotations, MemoryUsageAnnotation, usage.Memory)
	storage, storageErr := curveOf(annotations, StorageUsageAnnotation, usage.Memory)
	return curves{cpu, memory, storage}, errors.Join(cpuErr, memoryErr, storageErr)
}

func curveOf(annotations map[string]string, name string, what usage.Resource) (*usage.Curve, error) {
	text, ok := annotations[name]
	if !ok {
		return nil, nil
	}
	curve, err := usage.Parse(text, what)
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", name, err)
	}
	return curve, nil
}

// meters count what a container uses.
type meters struct{ cpu, memory, storage usage.Meter }

func newMeters(c curves, requests Requests) meters {
	m := meters{
		cpu:    usage.NewMeter(c.cpu, cmp.Or(requests.CPU, usage.AssumedCPU)),
		memory: usage.NewMeter(c.memory, cmp.Or(requests.Memory, usage.AssumedMemory)),
	}
	if c.storage != nil {
		m.storage = usage.NewMeter(c.storage, requests.Storage)
	}
	return m
}

func (m *meters) setRequests(ran time.Duration, requests Requests) {
	m.cpu.SetRequest(ran, cmp.Or(requests.CPU, usage.AssumedCPU))
	m.memory.SetRequest(ran, cmp.Or(requests.Memory, usage.AssumedMemory))
	m.storage.SetRequest(ran, requests.Storage)
}

// requestsOf asks what a container requests now. The caller does not hold the lock.
func (r *Runtime) requestsOf(id string) Requests {
	var pod *runtimeapi.PodSandboxMetadata
	var name string
	r.mu.Lock()
	if c, ok := r.containers[id]; ok {
		name = c.listed.GetMetadata().GetName()
		if parent, ok := r.sandboxes[c.listed.PodSandboxId]; ok {
			pod = parent.listed.GetMetadata()
		}
	}
	r.mu.Unlock()
	if pod == nil {
		return Requests{}
	}
	return r.options.RequestsOf(pod.GetNamespace(), pod.GetName(), name)
}

// runTime is how long the container has run.
func (c *container) runTime(now time.Time) time.Duration {
	switch {
	case c.startedAt.IsZero():
		return 0
	case !c.finishedAt.IsZero():
		return c.finishedAt.Sub(c.startedAt)
	default:
		return now.Sub(c.startedAt)
	}
}

// Used is what something uses: cores, core seconds since it started, and bytes.
type Used struct{ CPU, CPUSeconds, Memory float64 }

// usedBy is what a container uses, and has used. The caller holds the lock.
func (r *Runtime) usedBy(c *container, now time.Time) Used {
	if c.startedAt.IsZero() {
		return Used{}
	}
	ran := c.runTime(now)
	used := Used{CPUSeconds: usage.StartCPU + c.uses.cpu.Until(ran)}
	if c.finishedAt.IsZero() {
		used.CPU, used.Memory = c.uses.cpu.At(ran), max(c.uses.memory.At(ran), usage.MinMemory)
	}
	return used
}

// Used is what all containers use, and have used, those that are removed included.
func (r *Runtime) Used() Used {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.options.Clock.Now()
	all := Used{CPUSeconds: r.removedCPU}
	for _, c := range r.containers {
		r.endIfDue(c)
		one := r.usedBy(c, now)
		all.CPU += one.CPU
		all.CPUSeconds += one.CPUSeconds
		all.Memory += one.Memory
	}
	return all
}

// storageOf is how many bytes a container has written, until it is removed. The caller holds the lock.
func (r *Runtime) storageOf(c *container, now time.Time) float64 {
	if c.startedAt.IsZero() {
		return 0
	}
	return c.uses.storage.At(c.runTime(now))
}

// UsedStorage is how many bytes all containers have written.
func (r *Runtime) UsedStorage() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.options.Clock.Now()
	var all float64
	for _, c := range r.containers {
		r.endIfDue(c)
		all += r.storageOf(c, now)
	}
	return uint64(all)
}
