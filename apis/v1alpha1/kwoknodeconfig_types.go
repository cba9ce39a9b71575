package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KwokNodeConfigKind is the kind of the configuration of provider "kwok".
const KwokNodeConfigKind = "KwokNodeConfig"

// KwokNodeConfig is the provider configuration of provider "kwok", whose Nodes have no kubelet: kwok's controller keeps them Ready. It is
// not an object of the API server: it stands inside MachineClass.spec.providerConfig or Machine.spec.providerConfig.value. An unknown field
// in it is an error. Labels, annotations and taints are the Machine's.
//
// +kubebuilder:object:root=true
type KwokNodeConfig struct {
	// apiVersion is hollowfleet.io/v1alpha1 and kind is KwokNodeConfig; both are required.
	metav1.TypeMeta `json:",inline"`

	// capacity of the Node: cpu, memory, ephemeral-storage and any extended resource (example.com/gpu: "4").
	// Default per resource: the MachineClass's nodeTemplate.capacity, else cpu 4, memory 16Gi,
	// ephemeral-storage 100Gi. "pods" does not belong here: see maxPods.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// maxPods is how many pods the Node takes, 1 to 1000. Default 110.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxPods *int32 `json:"maxPods,omitempty"`

	// osImage is the operating system that the Node reports. Default "Hollow Linux".
	// +kubebuilder:validation:MaxLength=128
	// +optional
	OSImage string `json:"osImage,omitempty"`

	// startupDelay is how long a new Node is not Ready, as a real machine takes time to boot. It has to be less than the Machine's
	// timeouts.creation, and at most 24h. Default 0.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +optional
	StartupDelay *metav1.Duration `json:"startupDelay,omitempty"`

	// hollowTaint says whether the Node has the taint hollowfleet.io/hollow=true:NoSchedule, which keeps ordinary pods off it:
	// Auto, Always or Never. Default: what the cluster's agent is set to by its option --hollow-taint. A change to Always or Never
	// changes Nodes that exist, without a drain.
	// +optional
	HollowTaint HollowTaint `json:"hollowTaint,omitempty"`
}
