package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// HollowNodeConfigKind is the kind of the configuration of provider "hollow".
const HollowNodeConfigKind = "HollowNodeConfig"

// HollowNodeConfig is the provider configuration of provider "hollow". It is not an object of the API server: it
// stands inside MachineClass.spec.providerConfig or Machine.spec.providerConfig.value. An unknown field in it
// is an error.
//
// +kubebuilder:object:root=true
type HollowNodeConfig struct {
	// apiVersion is hollowfleet.io/v1alpha1 and kind is HollowNodeConfig; both are required.
	metav1.TypeMeta `json:",inline"`

	// capacity of the Node: cpu, memory, ephemeral-storage and any extended resource (example.com/gpu: "4").
	// Default per resource: the MachineClass's nodeTemplate.capacity, else cpu 4, memory 16Gi,
	// ephemeral-storage 100Gi. "pods" does not belong here: see maxPods.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// devices are simulated devices of the Node, such as GPUs, at most 8 kinds, each of a device plugin or of a DRA driver. A NodeDisruption
	// with the fault DeviceFailure lets them fail. Default none.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Devices []HollowDevices `json:"devices,omitempty"`

	// csiDrivers are simulated CSI drivers that register with the Node's kubelet, at most 8. Pods can have their volumes, which are empty and
	// mount nothing. The agent's option --csi-drivers (value hollowNode.csiDrivers of its chart) provisions them. Default none.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	CSIDrivers []HollowCSIDriver `json:"csiDrivers,omitempty"`

	// maxPods is how many pods the Node takes, 1 to 1000. Default 110.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxPods *int32 `json:"maxPods,omitempty"`

	// osImage is the operating system that the Node reports. Default "Hollow Linux".
	// +kubebuilder:validation:MaxLength=128
	// +optional
	OSImage string `json:"osImage,omitempty"`

	// startupDelay is how long the hollow node waits before it joins, as a real machine takes time to boot.
	// It has to be less than the Machine's timeouts.creation, and at most 24h. Default 0.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +optional
	StartupDelay *metav1.Duration `json:"startupDelay,omitempty"`

	// hollowTaint says whether the Node has the taint hollowfleet.io/hollow=true:NoSchedule, which keeps ordinary pods off it:
	// Auto, Always or Never. Default: what the cluster's agent is set to by its option --hollow-taint (value hollowNode.taint of
	// its chart), which is Auto unless it is set. A change to Always or Never changes Nodes that exist, without a drain.
	// +optional
	HollowTaint HollowTaint `json:"hollowTaint,omitempty"`

	// podResources are the resource requests of the hollow-node pod on its host. Default cpu 20m, memory 64Mi.
	// +optional
	PodResources corev1.ResourceList `json:"podResources,omitempty"`

	// profile is how near the Node's pods and kubelet come to those of a real node: Fast or Realistic. Each field below
	// replaces one setting of the profile. Default Fast.
	// +optional
	Profile HollowNodeProfile `json:"profile,omitempty"`

	// probes tells what happens to readiness, liveness and startup probes: Skip or Run. Default by profile: Fast Skip,
	// Realistic Run.
	// +optional
	Probes HollowProbes `json:"probes,omitempty"`

	// terminationPercent is how much of its grace period a container takes to end, 0 to 100. With 0 it ends at once; with
	// 100 it is killed when the grace period is over, and leaves the exit code 137 instead of 143. Default by profile: Fast
	// 0, Realistic 20.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	TerminationPercent *int32 `json:"terminationPercent,omitempty"`

	// registration tells what a kubelet does whose Node was deleted: Repeat, which registers it again within seconds, or Once, which leaves
	// it away until the kubelet starts again, as a real kubelet does. Default Repeat, with each profile.
	// +optional
	Registration HollowRegistration `json:"registration,omitempty"`

	// imagePull tells how long image pulls take, and how many fail.
	// +optional
	ImagePull *HollowImagePull `json:"imagePull,omitempty"`

	// kubelet has settings of the kubelet by the names that they have in a KubeletConfiguration.
	// +optional
	Kubelet *HollowKubelet `json:"kubelet,omitempty"`

	// staticPods are the manifests of the Node's static pods, at most 10 with 64 KiB together: Pods (apiVersion v1), as in the directory
	// staticPodPath of a kubelet. The kubelet runs them without the scheduler, and shows each as a mirror pod with the Node's name at the
	// end of its own. They cannot refer to Secrets, ConfigMaps, ServiceAccounts, claims or other objects. The cluster's agent takes those of
	// the namespaces of its option --static-pod-namespaces (value hollowNode.staticPodNamespaces of its chart), by default of none.
	// +kubebuilder:validation:MaxItems=10
	// +optional
	StaticPods []runtime.RawExtension `json:"staticPods,omitempty"`

	// turnUnhealthyAfter lets the Node be Ready for healthyDuration, and then not Ready for good. It wins over
	// turnUnhealthyPeriodically. Only another configuration ends it. Default false.
	// +optional
	TurnUnhealthyAfter bool `json:"turnUnhealthyAfter,omitempty"`

	// turnUnhealthyPeriodically lets the Node be Ready for healthyDuration and not Ready for unhealthyDuration, in turn.
	// Default false.
	// +optional
	TurnUnhealthyPeriodically bool `json:"turnUnhealthyPeriodically,omitempty"`

	// healthyDuration is how long the Node is Ready, counted from the first start of its kubelet in the pod: 0s to 720h.
	// Required with turnUnhealthyAfter and turnUnhealthyPeriodically.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +optional
	HealthyDuration *metav1.Duration `json:"healthyDuration,omitempty"`

	// unhealthyDuration is how long the Node is not Ready, 1s to 720h. A kubelet needs up to 15s until its Node says so.
	// Required with turnUnhealthyPeriodically, and without effect with turnUnhealthyAfter.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +optional
	UnhealthyDuration *metav1.Duration `json:"unhealthyDuration,omitempty"`
}

// HollowCSIDriver is a simulated CSI driver.
type HollowCSIDriver struct {
	// name of the driver, such as csi.example.com, at most 63 characters. Required.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// maxVolumesPerNode is how many volumes of the driver the scheduler lets the Node have, 1 to 1000. Default any number.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxVolumesPerNode *int32 `json:"maxVolumesPerNode,omitempty"`

	// topologyKeys are labels of the Node, at most 8, by which volumes are bound to a place: a volume can be used on Nodes with the same
	// values. Each is kubernetes.io/hostname, kubernetes.io/os, kubernetes.io/arch, or in the Machine's nodeMetadata.labels. Default none:
	// volumes can be used on each Node with the driver.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	TopologyKeys []string `json:"topologyKeys,omitempty"`
}

// HollowDevices are devices of one kind.
type HollowDevices struct {
	// resource is the extended resource that a device plugin offers to the Node's kubelet, such as example.com/gpu. Either it or driver is
	// required. capacity must not have it, and the MachineClass's nodeTemplate.capacity has the same number or none.
	// +optional
	Resource string `json:"resource,omitempty"`

	// driver is the DRA driver that publishes the devices in ResourceSlices of the Node and prepares ResourceClaims, such as
	// gpu.example.com, at most 63 characters. The devices are called after its first label: gpu-0, gpu-1 and so on.
	// +optional
	Driver string `json:"driver,omitempty"`

	// count is how many devices the Node has, 1 to 128. Required.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=128
	Count int32 `json:"count"`

	// attributes are those that each device of a driver has, by name, such as model. attributes and capacity have at most 32 together.
	// +optional
	Attributes map[string]HollowDeviceAttribute `json:"attributes,omitempty"`

	// capacity is that of each device of a driver, by name, such as memory: 80Gi.
	// +optional
	Capacity map[string]resource.Quantity `json:"capacity,omitempty"`
}

// HollowDeviceAttribute is the value of an attribute of a device, as a ResourceSlice has it. Exactly one of its fields is set.
type HollowDeviceAttribute struct {
	// string is a text of at most 64 characters.
	// +optional
	String *string `json:"string,omitempty"`

	// int is a whole number.
	// +optional
	Int *int64 `json:"int,omitempty"`

	// bool is true or false.
	// +optional
	Bool *bool `json:"bool,omitempty"`

	// version is a semantic version such as 1.2.3, of at most 64 characters.
	// +optional
	Version *string `json:"version,omitempty"`
}

// HollowTaint says when a hollow Node has the taint hollowfleet.io/hollow=true:NoSchedule.
//
// +kubebuilder:validation:Enum=Auto;Always;Never
type HollowTaint string

const (
	// HollowTaintAuto: when the hollow node is made, the agent looks whether its cluster has a Node that is neither hollow nor that of
	// a podhost. If it has, the Node registers with the taint. The Node keeps what it registered with.
	HollowTaintAuto HollowTaint = "Auto"
	// HollowTaintAlways: each Node has the taint, from its registration on. Nodes that exist get it.
	HollowTaintAlways HollowTaint = "Always"
	// HollowTaintNever: no Node has it. Nodes that exist lose one that the agent or the hollow node has put there.
	HollowTaintNever HollowTaint = "Never"
)

// HollowNodeProfile is a set of defaults for what a hollow node does with its pods.
//
// +kubebuilder:validation:Enum=Fast;Realistic
type HollowNodeProfile string

const (
	// HollowNodeProfileFast makes pods Ready at once and gone at once, with as few requests and watches as possible.
	HollowNodeProfileFast HollowNodeProfile = "Fast"
	// HollowNodeProfileRealistic lets pods start and end in their time, with the kubelet's own defaults.
	HollowNodeProfileRealistic HollowNodeProfile = "Realistic"
)

// HollowProbes is what a hollow node does with probes.
//
// +kubebuilder:validation:Enum=Skip;Run
type HollowProbes string

const (
	// HollowProbesSkip carries no probe out: a container that runs is started and ready.
	HollowProbesSkip HollowProbes = "Skip"
	// HollowProbesRun lets the kubelet's own prober decide, with the probe's delay, period and thresholds. The outcome of
	// each probe is success, or what annotations of the pod say; nothing is sent to the pod.
	HollowProbesRun HollowProbes = "Run"
)

// HollowRegistration is what a hollow node does whose Node was deleted.
//
// +kubebuilder:validation:Enum=Repeat;Once
type HollowRegistration string

const (
	// HollowRegistrationRepeat registers the Node again.
	HollowRegistrationRepeat HollowRegistration = "Repeat"
	// HollowRegistrationOnce registers it when the kubelet starts, and not again.
	HollowRegistrationOnce HollowRegistration = "Once"
)

// HollowImagePull is how image pulls go. An image that is there takes no time and does not fail.
type HollowImagePull struct {
	// bytesPerSecond is how fast the node pulls images, all of its pulls together: "0", which takes no time, or from 64Ki to
	// 1Ti. The size of an image is made up from its name, 5 to 205 MiB. Default by profile: Fast 0, Realistic 50Mi.
	// +optional
	BytesPerSecond *resource.Quantity `json:"bytesPerSecond,omitempty"`

	// failurePercent is how many of 100 pulls fail, 0 to 100. Default 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	FailurePercent *int32 `json:"failurePercent,omitempty"`

	// seed decides which pulls fail: with the same seed, the same pulls of a Node of the same name do. Default 0.
	// +optional
	Seed *int64 `json:"seed,omitempty"`
}

// HollowKubelet has settings of the kubelet by the names that they have in a KubeletConfiguration.
type HollowKubelet struct {
	// eventRecordQPS is how many events a second are sent, 0 to 10000; 0 means any number. Default by profile: Fast 5,
	// Realistic 50.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	EventRecordQPS *int32 `json:"eventRecordQPS,omitempty"`

	// eventBurst is how many events are sent at once, 1 to 10000. Default by profile: Fast 20, Realistic 100.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	EventBurst *int32 `json:"eventBurst,omitempty"`

	// registryPullQPS is how many image pulls a second are started, 0 to 10000; 0 means any number. Default by profile: Fast
	// 0, Realistic 5.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	RegistryPullQPS *int32 `json:"registryPullQPS,omitempty"`

	// registryBurst is how many image pulls are started at once, 1 to 10000. Default 10.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	RegistryBurst *int32 `json:"registryBurst,omitempty"`

	// serializeImagePulls pulls one image after the other. Default by profile: Fast false; Realistic true, but false with
	// maxParallelImagePulls of more than 1.
	// +optional
	SerializeImagePulls *bool `json:"serializeImagePulls,omitempty"`

	// maxParallelImagePulls is how many images are pulled at a time, 1 to 10000, when they are not pulled one after the
	// other. Default: any number.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MaxParallelImagePulls *int32 `json:"maxParallelImagePulls,omitempty"`

	// configMapAndSecretChangeDetectionStrategy is how the kubelet follows the ConfigMaps and Secrets of its pods: Watch,
	// with a watch for each; Cache, which reads them again after a time; or Get, which reads them at each sync. Default by
	// profile: Fast Cache, Realistic Watch.
	// +optional
	ConfigMapAndSecretChangeDetectionStrategy ChangeDetectionStrategy `json:"configMapAndSecretChangeDetectionStrategy,omitempty"`

	// podCertificateRequests keeps the kubelet's watch of PodCertificateRequests, of which volumes of projected
	// certificates are made. It is the feature gate PodCertificateRequest. Default by profile: Fast false, Realistic true.
	// +optional
	PodCertificateRequests *bool `json:"podCertificateRequests,omitempty"`

	// enableServer serves the kubelet's API on port 10250 of the hollow node's address, for callers that the Node's cluster authenticates and
	// authorizes: logs, /metrics/resource, /stats/summary, /pods. exec, attach, cp and port-forward are answered with an error: nothing runs in
	// a hollow node. The agent approves the serving certificate. Default false, with each profile.
	// +optional
	EnableServer *bool `json:"enableServer,omitempty"`

	// nodeLeaseDurationSeconds is how long the Node's Lease is valid, 4 to 3600. The kubelet renews it four times as often: this is the
	// Node's heartbeat. The cluster marks a Node Unknown that is silent for the grace period of its node controller, so this may be at most
	// three times that; the agent's option --node-monitor-grace-period tells it. Default 40.
	// +kubebuilder:validation:Minimum=4
	// +kubebuilder:validation:Maximum=3600
	// +optional
	NodeLeaseDurationSeconds *int32 `json:"nodeLeaseDurationSeconds,omitempty"`

	// nodeStatusUpdateFrequency is how often the kubelet computes the Node's status, and reports one that has changed: 1s to 5m. Default
	// 10s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +optional
	NodeStatusUpdateFrequency *metav1.Duration `json:"nodeStatusUpdateFrequency,omitempty"`
}

// ChangeDetectionStrategy is how a kubelet follows ConfigMaps and Secrets.
//
// +kubebuilder:validation:Enum=Get;Cache;Watch
type ChangeDetectionStrategy string

// The strategies of a KubeletConfiguration.
const (
	ChangeDetectionGet   ChangeDetectionStrategy = "Get"
	ChangeDetectionCache ChangeDetectionStrategy = "Cache"
	ChangeDetectionWatch ChangeDetectionStrategy = "Watch"
)
