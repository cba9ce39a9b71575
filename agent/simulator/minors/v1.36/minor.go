// Package minor has what a hollow node needs of Kubernetes that is not the same in each minor. This is v1.36, which takes the place of the
// built-in one when hollow-node is built with minors/v1.36.mod.
package minor

import (
	"context"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	cadvisorapiv2 "github.com/google/cadvisor/info/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
)

const (
	// Kubernetes is the minor.
	Kubernetes = "1.36"
	// KeepsPodsServer is that a kubelet has what serves the API of pods also while its feature gate is off.
	KeepsPodsServer = false
	// EndsEvictions is that the loop of the eviction manager ends with the context of the kubelet.
	EndsEvictions = false
)

// Machine is what cAdvisor says of a machine.
type Machine struct {
	Cores                          int
	Memory                         uint64
	MachineID, SystemUUID, BootID  string
	KernelVersion, ContainerOSName string
	// Disk returns the size of the one disk, and how much of it is used, in bytes.
	Disk func() (size, used uint64)
	// Used returns what the whole machine uses.
	Used func(now time.Time) Used
}

// Used is what a machine uses: processor time since it was started, billionths of a processor now, and bytes of memory.
type Used struct {
	Since     time.Time
	CPUTime   time.Duration
	NanoCores uint64
	Memory    uint64
}

// rootGroup is the control group of the whole machine, the only one there is.
const rootGroup = "/"

// NewCAdvisor stands in for cAdvisor.
func NewCAdvisor(of Machine) cadvisor.Interface { return machine{of} }

type machine struct{ Machine }

func (machine) Start() error { return nil }

func (m machine) MachineInfo() (*cadvisorapi.MachineInfo, error) {
	return &cadvisorapi.MachineInfo{
		NumCores: m.Cores, MemoryCapacity: m.Memory, MachineID: m.MachineID, SystemUUID: m.SystemUUID, BootID: m.BootID,
	}, nil
}

func (m machine) VersionInfo() (*cadvisorapi.VersionInfo, error) {
	return &cadvisorapi.VersionInfo{KernelVersion: m.KernelVersion, ContainerOsVersion: m.ContainerOSName}, nil
}

func (m machine) ContainerInfoV2(name string, _ cadvisorapiv2.RequestOptions) (map[string]cadvisorapiv2.ContainerInfo, error) {
	if name != rootGroup {
		return map[string]cadvisorapiv2.ContainerInfo{}, nil
	}
	now := time.Now()
	used := m.Used(now)
	return map[string]cadvisorapiv2.ContainerInfo{rootGroup: {
		Spec: cadvisorapiv2.ContainerSpec{
			CreationTime: used.Since, HasCpu: true, HasMemory: true, Memory: cadvisorapiv2.MemorySpec{Limit: max(m.Memory, used.Memory)},
		},
		Stats: []*cadvisorapiv2.ContainerStats{{
			Timestamp: now, Cpu: cpuOf(used), Memory: memoryOf(used),
			CpuInst: &cadvisorapiv2.CpuInstStats{Usage: cadvisorapiv2.CpuInstUsage{Total: used.NanoCores}},
		}},
	}}, nil
}

func (m machine) GetRequestedContainersInfo(name string, _ cadvisorapiv2.RequestOptions) (map[string]*cadvisorapi.ContainerInfo, error) {
	if name != rootGroup {
		return map[string]*cadvisorapi.ContainerInfo{}, nil
	}
	now := time.Now()
	used := m.Used(now)
	return map[string]*cadvisorapi.ContainerInfo{rootGroup: {
		ContainerReference: cadvisorapi.ContainerReference{Name: rootGroup},
		Spec: cadvisorapi.ContainerSpec{
			CreationTime: used.Since, HasCpu: true, HasMemory: true, Memory: cadvisorapi.MemorySpec{Limit: max(m.Memory, used.Memory)},
		},
		Stats: []*cadvisorapi.ContainerStats{{Timestamp: now, Cpu: *cpuOf(used), Memory: *memoryOf(used)}},
	}}, nil
}

func cpuOf(used Used) *cadvisorapi.CpuStats {
	return &cadvisorapi.CpuStats{Usage: cadvisorapi.CpuUsage{Total: uint64(used.CPUTime)}}
}

func memoryOf(used Used) *cadvisorapi.MemoryStats {
	return &cadvisorapi.MemoryStats{Usage: used.Memory, WorkingSet: used.Memory, RSS: used.Memory}
}

func (m machine) ImagesFsInfo(context.Context) (cadvisorapiv2.FsInfo, error)    { return m.disk(), nil }
func (m machine) ContainerFsInfo(context.Context) (cadvisorapiv2.FsInfo, error) { return m.disk(), nil }
func (m machine) RootFsInfo() (cadvisorapiv2.FsInfo, error)                     { return m.disk(), nil }
func (m machine) GetDirFsInfo(string) (cadvisorapiv2.FsInfo, error)             { return m.disk(), nil }

func (m machine) disk() cadvisorapiv2.FsInfo {
	size, used := m.Disk()
	inodes := size / 16384
	return cadvisorapiv2.FsInfo{
		Timestamp: time.Now(), Device: "hollow", Mountpoint: "/",
		Capacity: size, Usage: used, Available: size - used, Inodes: &inodes, InodesFree: &inodes,
	}
}

// WithCapacity returns a container manager whose node has this capacity. All of it goes the way of device plugins, because that is the only
// one on which the kubelet takes quantities as they are, extended resources and parts of a CPU included.
func WithCapacity(manager cm.ContainerManager, capacity corev1.ResourceList) cm.ContainerManager {
	return withCapacity{manager, capacity}
}

type withCapacity struct {
	cm.ContainerManager
	capacity corev1.ResourceList
}

func (c withCapacity) GetCapacity(bool) corev1.ResourceList { return c.capacity }

func (c withCapacity) GetDevicePluginResourceCapacity() (capacity, allocatable corev1.ResourceList, removed []string) {
	return c.capacity, nil, nil
}

// NewNodeStartupLatencyTracker returns the kubelet's own.
func NewNodeStartupLatencyTracker(klog.Logger) kubeletutil.NodeStartupLatencyTracker {
	return kubeletutil.NewNodeStartupLatencyTracker()
}

// Admit asks a kubelet's handler whether a pod may run.
func Admit(_ context.Context, handler lifecycle.PodAdmitHandler, attributes *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	return handler.Admit(attributes)
}

// NoCheckpoints is the part of a container runtime that makes and restores checkpoints of pods, which this minor does not have.
type NoCheckpoints struct{}
