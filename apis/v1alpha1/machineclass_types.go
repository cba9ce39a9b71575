package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// MachineClass is a reusable provider configuration for Machines of its namespace. It has no status: the
// Machines that use it say what is wrong with it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=mclass,categories=fleet
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.spec.nodeTemplate.capacity.cpu`,priority=1
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.nodeTemplate.capacity.memory`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))",optionalOldSelf=true,reason=FieldValueRequired,fieldPath=".spec",message="is missing: write one, or delete the object"
type MachineClass struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// DecodeError says why spec and status could not be decoded; then both are empty. It is not a field of the API.
	DecodeError string `json:"-"`

	// spec is written by the user.
	// +optional
	Spec MachineClassSpec `json:"spec"`
}

// MachineClassSpec says how a provider makes machines of this class.
type MachineClassSpec struct {
	// provider names the driver in the agent that makes the machines. "hollow" is built in. Cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.provider cannot be changed: create another MachineClass"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Provider string `json:"provider"`

	// providerConfig is the provider's own configuration with its apiVersion and kind; for provider hollow a
	// HollowNodeConfig. At most 64 fields, 2048 keys and items, 16384 characters and 5
	// levels. Default: the provider's defaults.
	// +mapType=atomic
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`

	// secretRef names a Secret of the namespace with the provider's credentials. The agent hands its name to the
	// provider and may read no Secret on the hub itself: a provider that needs it brings access of its own.
	// Provider hollow needs none and refuses one.
	// +optional
	SecretRef *corev1.LocalObjectReference `json:"secretRef,omitempty"`

	// timeouts of the Machines of this class that set none themselves.
	// +optional
	Timeouts *MachineTimeouts `json:"timeouts,omitempty"`

	// unhealthyNodeConditions of the Machines of this class that list none themselves.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=316
	// +listType=set
	// +optional
	UnhealthyNodeConditions []string `json:"unhealthyNodeConditions,omitempty"`

	// drainPolicy says whether a Node is drained before its Machine is deleted or updated. Default Drain.
	// +kubebuilder:default=Drain
	// +optional
	DrainPolicy DrainPolicy `json:"drainPolicy,omitempty"`

	// nodeTemplate describes the Node of such a machine before there is one, for scaling from zero.
	// +optional
	NodeTemplate *NodeTemplate `json:"nodeTemplate,omitempty"`
}

// DrainPolicy says whether Nodes are drained.
//
// +kubebuilder:validation:Enum=Drain;Skip
type DrainPolicy string

// The values of DrainPolicy.
const (
	// DrainNodes evicts the pods of a Node, within their disruption budgets, before it goes.
	DrainNodes DrainPolicy = "Drain"
	// SkipDrain lets a Node go with its pods, for throw-away nodes.
	SkipDrain DrainPolicy = "Skip"
)

// NodeTemplate is what a Node of a MachineClass will look like.
type NodeTemplate struct {
	// capacity of the Node. Provider hollow makes Nodes of this capacity unless its configuration says otherwise.
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 : !self[k].startsWith('-'))",message="nodeTemplate.capacity: a quantity is negative: write 0 or more"
	// +required
	Capacity corev1.ResourceList `json:"capacity"`
}

// MachineClassList is a list of MachineClasses.
//
// +kubebuilder:object:root=true
type MachineClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []MachineClass `json:"items"`
}
