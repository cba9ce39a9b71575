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
)

const (
	defaultOSImage = "Hollow Linux"
	// unreportedDisk is the size of the disk of a machine whose capacity names none: the kubelet wants to
	// know how much room there is for images.
	unreportedDisk = 100 << 30
)

// machine stands in for cAdvisor: it describes a machine that does not exist and whose only use of
// anything are the images.
type machine struct {
	info      cadvisorapi.MachineInfo
	version   cadvisorapi.VersionInfo
	disk      uint64
	usedBytes func() uint64
}

var _ cadvisor.Interface = &machine{}

// newMachine describes the machine of a configuration. Its machine ID and system UUID follow from the
// node's name, its boot ID is new in every process.
func newMachine(c contract.Configuration, usedBytes func() uint64) *machine {
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

func (m *machine) ContainerInfoV2(string, cadvisorapi.RequestOptions) (map[string]cadvisorapi.ContainerInfo, error) {
	return map[string]cadvisorapi.ContainerInfo{}, nil
}

func (m *machine) GetRequestedContainersInfo(string, cadvisorapi.RequestOptions) (map[string]*cadvisorapi.ContainerInfo, error) {
	return map[string]*cadvisorapi.ContainerInfo{}, nil
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
	capacity corev1.ResourceList
}

func newResources(c contract.Configuration) *resources {
	return &resources{ContainerManager: cm.NewStubContainerManager(), capacity: c.Capacity.DeepCopy()}
}

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
