package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Machine is one node of a cluster. It lives in the cluster's namespace on the hub; the cluster's agent makes
// it real. Its name is also the name of its Node and its pod.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ma,categories=fleet
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Stale",type=string,JSONPath=`.status.conditions[?(@.type=="Stale")].reason`
// +kubebuilder:printcolumn:name="Schedulable",type=string,JSONPath=`.status.conditions[?(@.type=="Schedulable")].status`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeRef.name`
// +kubebuilder:printcolumn:name="Kubelet",type=string,JSONPath=`.status.versions.kubelet`
// +kubebuilder:printcolumn:name="Code",type=string,JSONPath=`.status.versions.kubeletCode`,priority=1
// +kubebuilder:printcolumn:name="Provider ID",type=string,JSONPath=`.spec.providerID`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name: at most 63 characters, because the name is also the Node's name and a label value"
// +kubebuilder:validation:XValidation:rule="has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))",optionalOldSelf=true,reason=FieldValueRequired,fieldPath=".spec",message="is missing: write one, or delete the object"
type Machine struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// DecodeError says why spec and status could not be decoded; then both are empty. It is not a field of the API.
	DecodeError string `json:"-"`

	// spec is written by the user or the MachineSet, except providerID. What a MachineSet's template gives without
	// replacement (metadata, taints, roles) the set keeps as its template says. So it does with each of timeouts and with
	// unhealthyNodeConditions, unless a user sets another value on the Machine: that stays until it is removed.
	// +optional
	Spec MachineSpec `json:"spec"`
	// status is written by the cluster's agent. Until it has reported, phase is Pending.
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "The agent has not reported on this machine yet", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Reconciling", status: "True", reason: "Pending", message: "The agent has not reported on this machine yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	// +optional
	Status MachineStatus `json:"status,omitzero"`
}

// MachineSpec is the desired node.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="spec.providerID is set once by the agent and cannot be changed"
type MachineSpec struct {
	// clusterName is the Cluster that this Machine belongs to; it equals the name of the Machine's namespace.
	// Cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.clusterName cannot be changed: create the object in the other cluster's namespace"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	ClusterName string `json:"clusterName"`

	// providerID equals the Node's spec.providerID. Empty until the Node has joined. Written once, by the agent; the
	// admission policy hollowfleet-provider-id refuses it to others.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +optional
	ProviderID *string `json:"providerID,omitempty"`

	MachineTemplateBody `json:",inline"`
}

// MachineTemplateBody is what a Machine and the template of a MachineSet or MachineDeployment have in common.
type MachineTemplateBody struct {
	// metadata reaches the Node and is kept in sync there.
	// +optional
	NodeMetadata NodeMetadata `json:"metadata,omitzero"`

	// taints reach the Node and are kept in sync there. Taints that others put on the Node stay.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`

	// roles of the Node: each becomes the label node-role.kubernetes.io/<role>. Default none.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	Roles []string `json:"roles,omitempty"`

	// versions that the node is to run.
	// +optional
	Versions MachineVersions `json:"versions,omitzero"`

	// configSource names the KubeletConfiguration that the node is to run with. What it sets goes before the provider's
	// configuration. Default: the provider's. Only provider hollow takes one.
	// +optional
	ConfigSource *ConfigSource `json:"configSource,omitempty"`

	// requireVersionCode lets nothing be made of a Machine unless the kubelet code of the minor of versions.kubelet runs there,
	// where a provider could also only report that version: a hollow node, if no hollow-node of that minor is built. Default false.
	// +optional
	RequireVersionCode bool `json:"requireVersionCode,omitempty"`

	// timeouts bound the steps of a Machine's life. Default per field: the MachineClass's, else the field's.
	// +optional
	Timeouts *MachineTimeouts `json:"timeouts,omitempty"`

	// unhealthyNodeConditions are types of Node conditions, such as node-problem-detector's KernelDeadlock, that
	// make the Machine unhealthy while they are True. Default: the MachineClass's, else none; the Node's Ready
	// condition always counts.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=316
	// +listType=set
	// +optional
	UnhealthyNodeConditions []string `json:"unhealthyNodeConditions,omitempty"`

	// providerConfig says which provider makes the machine, and how.
	// +required
	ProviderConfig ProviderConfig `json:"providerConfig"`
}

// MachineTimeouts bound the steps of a Machine's life. The time that the cluster is frozen does not count. Each is a
// duration as Go reads it, in hours, minutes and seconds, such as 1h30m.
type MachineTimeouts struct {
	// creation is how long a new Machine may take until its Node is Ready; then it fails. Default 20m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-+]?(0|([0-9]{1,5}(\\\\.[0-9]{1,9})?h|[0-9]{1,7}(\\\\.[0-9]{1,9})?m|[0-9]{1,9}(\\\\.[0-9]{1,9})?s|[0-9]{1,12}(\\\\.[0-9]{1,9})?(ms|us|µs|ns))+)$') && duration(self) > duration('0s') && duration(self) <= duration('87600h')",message="timeouts.creation: must be more than 0s, at most 87600h, and in hours, minutes and seconds only, such as 90s, 20m or 1h30m"
	// +optional
	Creation *metav1.Duration `json:"creation,omitempty"`
	// health is how long a Machine may be unhealthy until it fails. Default 10m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-+]?(0|([0-9]{1,5}(\\\\.[0-9]{1,9})?h|[0-9]{1,7}(\\\\.[0-9]{1,9})?m|[0-9]{1,9}(\\\\.[0-9]{1,9})?s|[0-9]{1,12}(\\\\.[0-9]{1,9})?(ms|us|µs|ns))+)$') && duration(self) > duration('0s') && duration(self) <= duration('87600h')",message="timeouts.health: must be more than 0s, at most 87600h, and in hours, minutes and seconds only, such as 90s, 20m or 1h30m"
	// +optional
	Health *metav1.Duration `json:"health,omitempty"`
	// drain is how long a drain may take, counted from the Machine's deletion or from the start of its update;
	// then the Machine continues without. Default 2h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-+]?(0|([0-9]{1,5}(\\\\.[0-9]{1,9})?h|[0-9]{1,7}(\\\\.[0-9]{1,9})?m|[0-9]{1,9}(\\\\.[0-9]{1,9})?s|[0-9]{1,12}(\\\\.[0-9]{1,9})?(ms|us|µs|ns))+)$') && duration(self) >= duration('0s') && duration(self) <= duration('87600h')",message="timeouts.drain: must not be negative, at most 87600h, and in hours, minutes and seconds only, such as 90s, 20m or 1h30m"
	// +optional
	Drain *metav1.Duration `json:"drain,omitempty"`
}

// NodeMetadata is the part of a Node's metadata that a Machine sets.
type NodeMetadata struct {
	// labels of the Node.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations of the Node.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// MachineVersions are the versions of a node's parts.
type MachineVersions struct {
	// kubelet is the kubelet's version, a semantic version such as "v1.36.2" or "1.36.2", with at most nine
	// digits in each of its numbers. Default: the version that the provider has.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^v?(0|[1-9][0-9]{0,8})(\\\\.(0|[1-9][0-9]{0,8})){2}(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\\\\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?(\\\\+[0-9A-Za-z-]+(\\\\.[0-9A-Za-z-]+)*)?$')",message="spec.versions.kubelet: not a semantic version: write it as v1.36.2"
	// +optional
	Kubelet string `json:"kubelet,omitempty"`

	// controlPlane is the control plane's version on a control-plane machine. Provider hollow makes no
	// control planes and refuses it.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ControlPlane string `json:"controlPlane,omitempty"`

	// containerRuntime is the container runtime that the node runs. Default: the provider's.
	// +optional
	ContainerRuntime *ContainerRuntime `json:"containerRuntime,omitempty"`
}

// ContainerRuntime names a container runtime and its version.
type ContainerRuntime struct {
	// name such as "containerd".
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
	// version such as "2.1.4" or "2.2.0-rc.1": two numbers or more, with at most nine digits in each.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^v?(0|[1-9][0-9]{0,8})(\\\\.[0-9]{1,9})+([-+~_A-Za-z][-+~_.0-9A-Za-z]*)?$')",message="spec.versions.containerRuntime.version: not a version: write it as 2.1.4"
	// +required
	Version string `json:"version"`
}

// ProviderConfig chooses provider and configuration: either in place (value) or through a MachineClass
// (valueRef).
//
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.valueRef)",message="spec.providerConfig: set exactly one of value and valueRef"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || has(self.value)",message="spec.providerConfig.provider: only beside value; with valueRef the MachineClass names the provider"
type ProviderConfig struct {
	// provider names the driver that reads value. Default "hollow". Not set with valueRef.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Provider string `json:"provider,omitempty"`

	// value is the provider's own configuration with its apiVersion and kind, for provider hollow a
	// HollowNodeConfig. At most 64 fields, 2048 keys and items, 16384 characters and 5 levels.
	// +mapType=atomic
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Value *runtime.RawExtension `json:"value,omitempty"`

	// valueRef names a MachineClass of the same namespace.
	// +optional
	ValueRef *MachineClassReference `json:"valueRef,omitempty"`
}

// MachineClassReference names a MachineClass of the same namespace.
type MachineClassReference struct {
	// name of the MachineClass.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// MachinePhase is a Machine's place in its life, for people; programs read the conditions.
//
// +kubebuilder:validation:Enum=Pending;Provisioning;Running;Updating;Unknown;Failed;Terminating
type MachinePhase string

// The phases of a Machine.
const (
	// MachinePending: the agent has not reported yet.
	MachinePending MachinePhase = "Pending"
	// MachineProvisioning: the pod exists, the Node has never been Ready.
	MachineProvisioning MachinePhase = "Provisioning"
	// MachineRunning: the Node has joined and was Ready; the Ready condition tells how it is now.
	MachineRunning MachinePhase = "Running"
	// MachineUpdating: the instance is drained and updated in place.
	MachineUpdating MachinePhase = "Updating"
	// MachineUnknown: the Node's state is unknown.
	MachineUnknown MachinePhase = "Unknown"
	// MachineFailed: a terminal error; errorReason and errorMessage say what. The MachineSet replaces a Machine
	// that ran into a timeout; with any other error the user has to change something.
	MachineFailed MachinePhase = "Failed"
	// MachineTerminating: the Machine is being deleted.
	MachineTerminating MachinePhase = "Terminating"
)

// NodeReference points to the Node of a Machine in the workload cluster.
type NodeReference struct {
	// kind is always Node.
	// +kubebuilder:validation:Enum=Node
	Kind string `json:"kind"`
	// name of the Node.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid of the Node.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Type=string
	UID types.UID `json:"uid"`
}

// ObservedVersions are the versions that a Node reports.
type ObservedVersions struct {
	// kubelet version, such as "v1.36.2".
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Kubelet string `json:"kubelet,omitempty"`
	// kubeletCode is the version of the kubelet code that a hollow Node runs. If it is another than kubelet, that is only reported.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	KubeletCode string `json:"kubeletCode,omitempty"`
	// containerRuntime as the Node reports it, such as "containerd://2.1.4".
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ContainerRuntime string `json:"containerRuntime,omitempty"`
	// osImage that the Node reports.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	OSImage string `json:"osImage,omitempty"`
}

// MachineStatus is what the agent knows of a Machine. All of it is written by the agent, but for the condition Stale.
type MachineStatus struct {
	// observedGeneration is the generation that the agent last worked on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase sums the Machine's life up for people.
	// +optional
	Phase MachinePhase `json:"phase,omitempty"`
	// nodeRef is the Machine's Node; absent until the Node has joined.
	// +optional
	NodeRef *NodeReference `json:"nodeRef,omitempty"`
	// versions that the Node reports.
	// +optional
	Versions *ObservedVersions `json:"versions,omitempty"`
	// configSource tells which KubeletConfiguration the Machine runs; absent without one.
	// +optional
	ConfigSource *MachineConfigStatus `json:"configSource,omitempty"`
	// addresses of the Node, the first 64.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(a, a.address.size() <= 256 && a.type.size() <= 64)",message="status.addresses: an address has at most 256 characters, and its type 64"
	// +optional
	Addresses []corev1.NodeAddress `json:"addresses,omitempty"`

	// errorReason is set only for a terminal error: one that lasts until the user changes something.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ErrorReason string `json:"errorReason,omitempty"`
	// errorMessage says what is wrong and what to change. Set with errorReason.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	ErrorMessage string `json:"errorMessage,omitempty"`
	// failureMessage repeats errorMessage under the name that cluster-autoscaler's clusterapi provider reads.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	FailureMessage string `json:"failureMessage,omitempty"`

	// lastUpdated is when phase or a condition's status last changed. It is not a heartbeat.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// conditions: PodRunning, NodeReady, ConfigurationValid, Healthy, Updated, Drained, Schedulable, Ready, Reconciling,
	// Stalled; and Stale, which the hub writes.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MachineList is a list of Machines.
//
// +kubebuilder:object:root=true
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Machine `json:"items"`
}
