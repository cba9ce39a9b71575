package hollownode

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/minor"
)

const (
	defaultOSImage = "Hollow Linux"
	// unreportedDisk is the size of the disk of a machine whose capacity names none: the kubelet wants to
	// know how much room there is for images.
	unreportedDisk = 100 << 30
)

// Shares of a machine's capacity that its base uses.
const (
	baseCPUShare    = 0.02
	baseMemoryShare = 0.05
)

// newMachine describes the machine of a configuration, which does not exist, on which images and containers take room, and containers and a base use CPU
// and memory. Its machine ID and system UUID follow from the node's name.
func newMachine(c contract.Configuration, h *hardware) cadvisor.Interface {
	cpu, memory := c.Capacity[corev1.ResourceCPU], c.Capacity[corev1.ResourceMemory]
	size := uint64(unreportedDisk)
	if storage, ok := c.Capacity[corev1.ResourceEphemeralStorage]; ok {
		size = uint64(storage.Value())
	}
	id := sha256.Sum256([]byte(c.NodeName))
	baseCPU, baseMemory := baseCPUShare*cpu.AsApproximateFloat64(), baseMemoryShare*memory.AsApproximateFloat64()
	return minor.NewCAdvisor(minor.Machine{
		Cores: int(cpu.Value()), Memory: uint64(memory.Value()),
		MachineID:     hex.EncodeToString(id[:16]),
		SystemUUID:    uuid.NewSHA1(uuid.NameSpaceDNS, []byte(c.NodeName)).String(),
		BootID:        h.bootID,
		KernelVersion: kernelVersion(), ContainerOSName: cmp.Or(c.OSImage, defaultOSImage),
		Disk: func() (uint64, uint64) { return size, min(h.images.UsedBytes()+h.runtime.UsedStorage(), size) },
		Used: func(now time.Time) minor.Used {
			containers := h.runtime.Used()
			return minor.Used{
				Since: h.started, CPUTime: time.Duration((baseCPU*now.Sub(h.started).Seconds() + containers.CPUSeconds) * float64(time.Second)),
				NanoCores: uint64((baseCPU + containers.CPU) * 1e9), Memory: uint64(baseMemory + containers.Memory),
			}
		},
	})
}

// kernelVersion is that of the machine that really runs this process.
func kernelVersion() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Release[:])
}

// resources stands in for the kubelet's container manager: nothing is limited, and the node has exactly
// the configured capacity.
type resources struct {
	cm.ContainerManager
	reserved corev1.ResourceList
}

func newResources(ctx context.Context, c contract.Configuration, of *hardware, client clientset.Interface) (*resources, error) {
	capacity := c.Capacity.DeepCopy()
	manager, err := of.devices.manageDevices(ctx, minor.WithCapacity(cm.NewStubContainerManager(), capacity), capacity)
	if err != nil {
		return nil, err
	}
	if manager, err = of.claims.manageClaims(ctx, manager, client); err != nil {
		return nil, err
	}
	made := &resources{ContainerManager: manager}
	if c.KubeletConfiguration != nil {
		made.reserved = c.KubeletConfiguration.Reserved.DeepCopy()
	}
	return made, nil
}

// GetNodeAllocatableReservation is what pods cannot have of the capacity.
func (r *resources) GetNodeAllocatableReservation() corev1.ResourceList { return r.reserved }

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
