package minor

import (
	"context"
	"fmt"
	_ "unsafe" // for go:linkname

	cadvisorapi "github.com/google/cadvisor/info/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/resourceupdates"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/status"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// newDeviceManager is the constructor of the kubelet's device manager with the path of its socket. The exported one has no such argument:
// the socket, and the checkpoint beside it, are in /var/lib/kubelet then, which is that of the machine and one for all nodes.
//
//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(klog.Logger, string, []cadvisorapi.Node, topologymanager.Store) (*devicemanager.ManagerImpl, error)

// DeviceOptions are what a node with devices needs.
type DeviceOptions struct {
	// Capacity is all that the node has beside its devices.
	Capacity corev1.ResourceList
	// Socket is the path of the kubelet's socket for device plugins. The checkpoint of allocations is beside it.
	Socket string
	// Containers returns what runs already: the containers of pods, and those of them that are running.
	Containers func(context.Context, internalapi.RuntimeService) (containermap.ContainerMap, sets.Set[string])
	// Started is called when plugins can register; pods start after it.
	Started func(context.Context)
}

// Devices is a container manager with the kubelet's own device manager.
type Devices struct {
	cm.ContainerManager
	options  DeviceOptions
	topology topologymanager.Manager
	devices  *devicemanager.ManagerImpl
}

// WithDevices returns a container manager whose node has devices. Nothing of it runs before the kubelet starts it.
func WithDevices(logger klog.Logger, manager cm.ContainerManager, options DeviceOptions) (*Devices, error) {
	topology, err := topologymanager.NewManager(nil, topologymanager.PolicyNone, topologymanager.ContainerTopologyScope, nil)
	if err != nil {
		return nil, fmt.Errorf("making the topology manager: %w", err)
	}
	devices, err := newDeviceManager(logger, options.Socket, nil, topology)
	if err != nil {
		return nil, fmt.Errorf("making the device manager: %w", err)
	}
	topology.AddHintProvider(logger, devices)
	return &Devices{ContainerManager: manager, options: options, topology: topology, devices: devices}, nil
}

// Start starts the manager, until ctx ends.
func (d *Devices) Start(ctx context.Context, node *corev1.Node, pods cm.ActivePodsFunc, getNode cm.GetNodeFunc, ready config.SourcesReady,
	statuses status.PodStatusProvider, runtime internalapi.RuntimeService, isolation bool,
) error {
	if err := d.ContainerManager.Start(ctx, node, pods, getNode, ready, statuses, runtime, isolation); err != nil {
		return err
	}
	logger := klog.FromContext(ctx)
	containers, running := d.options.Containers(ctx, runtime)
	if err := d.devices.Start(logger, devicemanager.ActivePodsFunc(pods), ready, containers, running); err != nil {
		return fmt.Errorf("starting the device manager: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = d.devices.Stop(logger) })
	d.options.Started(ctx)
	return nil
}

// CountDevices returns how many devices of a resource its plugin has reported, healthy or not.
func (d *Devices) CountDevices(_ klog.Logger, resource corev1.ResourceName) int64 {
	capacity, _, _ := d.devices.GetCapacity()
	quantity := capacity[resource]
	return quantity.Value()
}

// GetCapacity is what the node has beside its devices.
func (d *Devices) GetCapacity(bool) corev1.ResourceList { return d.options.Capacity }

// GetDevicePluginResourceCapacity has that too; see WithCapacity.
func (d *Devices) GetDevicePluginResourceCapacity() (capacity, allocatable corev1.ResourceList, removed []string) {
	capacity, allocatable, removed = d.devices.GetCapacity()
	for name, quantity := range d.options.Capacity {
		capacity[name] = quantity
	}
	return capacity, allocatable, removed
}

// GetAllocateResourcesPodAdmitHandler allocates the devices of a pod.
func (d *Devices) GetAllocateResourcesPodAdmitHandler() lifecycle.PodAdmitHandler {
	return d.topology
}

// UpdatePluginResources lets a pod with devices stay whose plugin is away.
func (d *Devices) UpdatePluginResources(node *schedulerframework.NodeInfo, attributes *lifecycle.PodAdmitAttributes) error {
	return d.devices.UpdatePluginResources(node, attributes)
}

// GetResources are those of the devices of a container.
func (d *Devices) GetResources(ctx context.Context, pod *corev1.Pod, container *corev1.Container) (*kubecontainer.RunContainerOptions, error) {
	made := &kubecontainer.RunContainerOptions{}
	options, err := d.devices.GetDeviceRunContainerOptions(ctx, pod, container)
	if err != nil || options == nil {
		return made, err
	}
	made.Devices, made.Mounts, made.Envs = options.Devices, options.Mounts, options.Envs
	made.Annotations, made.CDIDevices = options.Annotations, options.CDIDevices
	return made, nil
}

// ShouldResetExtendedResourceCapacity is that a node without a checkpoint starts without devices.
func (d *Devices) ShouldResetExtendedResourceCapacity() bool {
	return d.devices.ShouldResetExtendedResourceCapacity()
}

// UpdateAllocatedDevices frees the devices of pods that have ended.
func (d *Devices) UpdateAllocatedDevices() { d.devices.UpdateAllocatedDevices() }

// UpdateAllocatedResourcesStatus adds the health of a pod's devices to its status.
func (d *Devices) UpdateAllocatedResourcesStatus(pod *corev1.Pod, status *corev1.PodStatus) {
	d.devices.UpdateAllocatedResourcesStatus(pod, status)
}

// Updates has the pods whose devices have changed.
func (d *Devices) Updates() <-chan resourceupdates.Update { return d.devices.Updates() }
