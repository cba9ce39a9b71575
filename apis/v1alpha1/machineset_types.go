package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MachineSet keeps a number of Machines of one template.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=mset,categories=fleet
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Frozen",type=string,JSONPath=`.status.conditions[?(@.type=="Frozen")].status`
// +kubebuilder:printcolumn:name="Kubelet",type=string,JSONPath=`.spec.template.spec.versions.kubelet`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 57",message="metadata.name: at most 57 characters, because Machine names add 6 and are at most 63"
type MachineSet struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is written by the user or the MachineDeployment.
	// +required
	Spec MachineSetSpec `json:"spec"`
	// status is written by the hub.
	// +optional
	Status MachineSetStatus `json:"status,omitzero"`
}

// MachineSetSpec is the desired set of Machines.
//
// +kubebuilder:validation:XValidation:rule="has(self.template.metadata) && has(self.template.metadata.labels) && self.selector.matchLabels.all(k, k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k])",message="spec.selector.matchLabels does not match spec.template.metadata.labels: give the template every label of the selector",fieldPath=".selector"
type MachineSetSpec struct {
	// clusterName is the Cluster that the Machines belong to; it equals the namespace's name. Cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.clusterName cannot be changed: create the object in the other cluster's namespace"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	ClusterName string `json:"clusterName"`

	// replicas is the number of Machines, 0 to 10000. Default 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// minReadySeconds is how long a Machine must have been Ready to count as available. Default 0.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// selector chooses the Machines of this set; the template must carry its labels. Cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.selector cannot be changed: create another object"
	// +required
	Selector MachineSelector `json:"selector"`

	// template of the Machines. A change reaches Machines made later only.
	// +required
	Template MachineTemplate `json:"template"`
}

// MachineSetStatus is what the hub knows of a MachineSet. Counts may lag by a few seconds: changes that come
// in quick succession are written as one.
type MachineSetStatus struct {
	// observedGeneration is the generation that the hub last worked on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// selector in the text form that the scale subresource needs.
	// +optional
	Selector string `json:"selector,omitempty"`
	// replicas is the number of Machines, those being deleted too.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is the number of Machines whose Ready condition is True.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// availableReplicas is the number of Machines Ready for at least minReadySeconds.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`

	// conditions: Available, ReplicaFailure, Frozen.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MachineSetList is a list of MachineSets.
//
// +kubebuilder:object:root=true
type MachineSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []MachineSet `json:"items"`
}
