// Package minor has what a hollow node needs of Kubernetes that is not the same in each minor. This is v1.37, which is built in. The other
// minors are beside it, each a module of the same name: the go.mod file that hollow-node is built with chooses one.
package minor

import (
	"context"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
)

const (
	// Kubernetes is the minor.
	Kubernetes = "1.37"
	// KeepsPodsServer is that a kubelet has what serves the API of pods also while its feature gate is off.
	KeepsPodsServer = true
	// EndsEvictions is that the loop of the eviction manager ends with the context of the kubelet.
	EndsEvictions = true
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

func (m machine) MachineInfo(klog.Logger) (*cadvisorapi.MachineInfo, error) {
	return &cadvisorapi.MachineInfo{
		NumCores: m.Cores, MemoryCapacity: m.Memory, MachineID: m.MachineID, SystemUUID: m.SystemUUID, BootID: m.BootID,
	}, nil
}

func (m machine) VersionInfo() (*cadvisorapi.VersionInfo, error) {
	return &cadvisorapi.VersionInfo{KernelVersion: m.KernelVersion, ContainerOsVersion: m.ContainerOSName}, nil
}

func (m machine) ContainerInfoV2(name string, _ cadvisorapi.RequestOptions) (map[string]cadvisorapi.ContainerInfo, error) {
	if name != rootGroup {
		return map[string]cadvisorapi.ContainerInfo{}, nil
	}
	return map[string]cadvisorapi.ContainerInfo{rootGroup: m.rootInfo(time.Now())}, nil
}

func (m machine) GetRequestedContainersInfo(name string, _ cadvisorapi.RequestOptions) (map[string]*cadvisorapi.ContainerInfo, error) {
	if name != rootGroup {
		return map[string]*cadvisorapi.ContainerInfo{}, nil
	}
	info := m.rootInfo(time.Now())
	return map[string]*cadvisorapi.ContainerInfo{rootGroup: &info}, nil
}

func (m machine) rootInfo(now time.Time) cadvisorapi.ContainerInfo {
	used := m.Used(now)
	return cadvisorapi.ContainerInfo{
		ContainerReference: cadvisorapi.ContainerReference{Name: rootGroup},
		Spec: cadvisorapi.ContainerSpec{
			CreationTime: used.Since, HasCpu: true, HasMemory: true, Memory: cadvisorapi.MemorySpec{Limit: max(m.Memory, used.Memory)},
		},
		Stats: []*cadvisorapi.ContainerStats{{
			Timestamp: now,
			Cpu:       &cadvisorapi.CpuStats{Usage: cadvisorapi.CpuUsage{Total: uint64(used.CPUTime)}},
			CpuInst:   &cadvisorapi.CpuInstStats{Usage: cadvisorapi.CpuInstUsage{Total: used.NanoCores}},
			Memory:    &cadvisorapi.MemoryStats{Usage: used.Memory, WorkingSet: used.Memory, RSS: used.Memory},
		}},
	}
}

func (m machine) ImagesFsInfo(context.Context) (cadvisorapi.FsInfo, error)    { return m.disk(), nil }
func (m machine) ContainerFsInfo(context.Context) (cadvisorapi.FsInfo, error) { return m.disk(), nil }
func (m machine) RootFsInfo() (cadvisorapi.FsInfo, error)                     { return m.disk(), nil }
func (m machine) GetDirFsInfo(string) (cadvisorapi.FsInfo, error)             { return m.disk(), nil }

func (m machine) disk() cadvisorapi.FsInfo {
	size, used := m.Disk()
	inodes := size / 16384
	return cadvisorapi.FsInfo{
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

func (c withCapacity) GetCapacity(klog.Logger, bool) corev1.ResourceList { return c.capacity }

func (c withCapacity) GetDevicePluginResourceCapacity(klog.Logger) (capacity, allocatable corev1.ResourceList, removed []string) {
	return c.capacity, nil, nil
}

// NewNodeStartupLatencyTracker returns the kubelet's own.
func NewNodeStartupLatencyTracker(logger klog.Logger) kubeletutil.NodeStartupLatencyTracker {
	return kubeletutil.NewNodeStartupLatencyTracker(logger)
}

// Admit asks a kubelet's handler whether a pod may run.
func Admit(ctx context.Context, handler lifecycle.PodAdmitHandler, attributes *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	return handler.Admit(ctx, attributes)
}

// NoCheckpoints is the part of a container runtime that makes and restores checkpoints of pods, which is not possible.
type NoCheckpoints struct{}

var errNoCheckpoint = status.Error(codes.Unimplemented, "nothing runs in a hollow node: its containers have no process, no files and no ports")

// CheckpointPod is not possible.
func (NoCheckpoints) CheckpointPod(context.Context, *runtimeapi.CheckpointPodRequest) error {
	return errNoCheckpoint
}

// RestorePod is not possible.
func (NoCheckpoints) RestorePod(context.Context, *runtimeapi.RestorePodRequest) (*runtimeapi.RestorePodResponse, error) {
	return nil, errNoCheckpoint
}
