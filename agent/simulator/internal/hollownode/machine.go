package hollownode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/google/uuid"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
)

const (
	defaultOSImage = "Hollow Linux"
	// unreportedDisk is the size of the disk of a machine whose capacity names none: the kubelet wants to
	// know how much room there is for images.
	unreportedDisk = 100 << 30
)

// machine stands in for cAdvisor: it describes a machine that does not exist, on which images take room, and containers and a base use CPU
// and memory.
type machine struct {
	info      cadvisorapi.MachineInfo
	version   cadvisorapi.VersionInfo
	disk      uint64
	usedBytes func() uint64
	used      func() fakecri.Used
	started   time.Time
	// baseCPU and baseMemory are what the machine uses without containers: cores and bytes.
	baseCPU, baseMemory float64
}

// Shares of a machine's capacity that its base uses.
const (
	baseCPUShare    = 0.02
	baseMemoryShare = 0.05
)

var _ cadvisor.Interface = &machine{}

// newMachine describes the machine of a configuration. Its machine ID and system UUID follow from the
// node's name, its boot ID is new in every process.
func newMachine(c contract.Configuration, usedBytes func() uint64, used func() fakecri.Used) *machine {
	cpu, memory := c.Capacity[corev1.ResourceCPU], c.Capacity[corev1.ResourceMemory]
	disk := uint64(unreportedDisk)
	if storage, ok := c.Capacity[corev1.ResourceEphemeralStorage]; ok {
		disk = uint64(storage.Value())
	}
	osImage := c.OSImage
	if osImage == "" {
		osImage = defaultOSImage
	}
	id := sha256.Sum256([]byte(c.NodeName))
	return &machine{
		info: cadvisorapi.MachineInfo{
			NumCores:       int(cpu.Value()),
			MemoryCapacity: uint64(memory.Value()),
			MachineID:      hex.EncodeToString(id[:16]),
			SystemUUID:     uuid.NewSHA1(uuid.NameSpaceDNS, []byte(c.NodeName)).String(),
			BootID:         uuid.NewString(),
		},
		version:   cadvisorapi.VersionInfo{KernelVersion: kernelVersion(), ContainerOsVersion: osImage},
		disk:      disk,
		usedBytes: usedBytes,
		used:      used,
		started:   time.Now(),

		baseCPU:    baseCPUShare * cpu.AsApproximateFloat64(),
		baseMemory: baseMemoryShare * memory.AsApproximateFloat64(),
	}
}

// kernelVersion is that of the machine that really runs this process.
func kernelVersion() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Release[:])
}

func (m *machine) Start() error { return nil }

func (m *machine) MachineInfo(klog.Logger) (*cadvisorapi.MachineInfo, error) {
	info := m.info
	return &info, nil
}

func (m *machine) VersionInfo() (*cadvisorapi.VersionInfo, error) { return &m.version, nil }

// rootGroup is the control group of the whole machine, the only one there is.
const rootGroup = "/"

func (m *machine) ContainerInfoV2(name string, _ cadvisorapi.RequestOptions) (map[string]cadvisorapi.ContainerInfo, error) {
	if name != rootGroup {
		return map[string]cadvisorapi.ContainerInfo{}, nil
	}
	return map[string]cadvisorapi.ContainerInfo{rootGroup: m.rootInfo(time.Now())}, nil
}

func (m *machine) GetRequestedContainersInfo(name string, _ cadvisorapi.RequestOptions) (map[string]*cadvisorapi.ContainerInfo, error) {
	if name != rootGroup {
		return map[string]*cadvisorapi.ContainerInfo{}, nil
	}
	info := m.rootInfo(time.Now())
	return map[string]*cadvisorapi.ContainerInfo{rootGroup: &info}, nil
}

// rootInfo is what the machine uses: its base and its containers.
func (m *machine) rootInfo(now time.Time) cadvisorapi.ContainerInfo {
	used := m.used()
	seconds := m.baseCPU*now.Sub(m.started).Seconds() + used.CPUSeconds
	memory := uint64(m.baseMemory + used.Memory)
	return cadvisorapi.ContainerInfo{
		ContainerReference: cadvisorapi.ContainerReference{Name: rootGroup},
		Spec: cadvisorapi.ContainerSpec{
			CreationTime: m.started, HasCpu: true, HasMemory: true,
			Memory: cadvisorapi.MemorySpec{Limit: max(m.info.MemoryCapacity, memory)},
		},
		Stats: []*cadvisorapi.ContainerStats{{
			Timestamp: now,
			Cpu:       &cadvisorapi.CpuStats{Usage: cadvisorapi.CpuUsage{Total: uint64(seconds * float64(time.Second))}},
			CpuInst:   &cadvisorapi.CpuInstStats{Usage: cadvisorapi.CpuInstUsage{Total: uint64((m.baseCPU + used.CPU) * float64(time.Second))}},
			Memory:    &cadvisorapi.MemoryStats{Usage: memory, WorkingSet: memory, RSS: memory},
		}},
	}
}

func (m *machine) ImagesFsInfo(context.Context) (cadvisorapi.FsInfo, error) {
	return m.diskInfo(), nil
}
func (m *machine) ContainerFsInfo(context.Context) (cadvisorapi.FsInfo, error) {
	return m.diskInfo(), nil
}
func (m *machine) RootFsInfo() (cadvisorapi.FsInfo, error)         { return m.diskInfo(), nil }
func (m *machine) GetDirFsInfo(string) (cadvisorapi.FsInfo, error) { return m.diskInfo(), nil }

// diskInfo is the one disk, which holds images and everything else.
func (m *machine) diskInfo() cadvisorapi.FsInfo {
	used := min(m.usedBytes(), m.disk)
	inodes := m.disk / 16384
	return cadvisorapi.FsInfo{
		Timestamp: time.Now(), Device: "hollow", Mountpoint: "/",
		Capacity: m.disk, Usage: used, Available: m.disk - used, Inodes: &inodes, InodesFree: &inodes,
	}
}

// resources stands in for the kubelet's container manager: nothing is limited, and the node has exactly
// the configured capacity. All of it goes the way of device plugins, because that is the only one on which
// the kubelet takes quantities as they are, extended resources and parts of a CPU included.
type resources struct {
	cm.ContainerManager
	capacity, reserved corev1.ResourceList
}

func newResources(c contract.Configuration) *resources {
	made := &resources{ContainerManager: cm.NewStubContainerManager(), capacity: c.Capacity.DeepCopy()}
	if c.KubeletConfiguration != nil {
		made.reserved = c.KubeletConfiguration.Reserved.DeepCopy()
	}
	return made
}

// GetNodeAllocatableReservation is what pods cannot have of the capacity.
func (r *resources) GetNodeAllocatableReservation() corev1.ResourceList { return r.reserved }

func (r *resources) GetCapacity(klog.Logger, bool) corev1.ResourceList { return r.capacity }

func (r *resources) GetDevicePluginResourceCapacity(klog.Logger) (capacity, allocatable corev1.ResourceList, removed []string) {
	return r.capacity, nil, nil
}

func (r *resources) NewPodContainerManager() cm.PodContainerManager {
	return unlimited{r.ContainerManager.NewPodContainerManager()}
}

// unlimited stands in for the control groups of pods: there are none, so no pod has a limit, and setting
// one succeeds.
type unlimited struct{ cm.PodContainerManager }

func (unlimited) GetPodCgroupConfig(*corev1.Pod, corev1.ResourceName) (*cm.ResourceConfig, error) {
	// The kubelet takes zero for "none", and needs every field.
	return &cm.ResourceConfig{
		Memory: new(int64), CPUShares: new(uint64), CPUQuota: new(int64), CPUPeriod: new(uint64),
	}, nil
}

func (unlimited) SetPodCgroupConfig(klog.Logger, *corev1.Pod, *cm.ResourceConfig) error { return nil }
