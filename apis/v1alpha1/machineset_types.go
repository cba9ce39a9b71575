package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MachineSet keeps a number of Machines of one template.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=ms,categories=fleet
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Ready Machines",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Frozen",type=string,JSONPath=`.status.conditions[?(@.type=="Frozen")].status`
// +kubebuilder:printcolumn:name="Kubelet",type=string,JSONPath=`.spec.template.spec.versions.kubelet`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 57",message="metadata.name: at most 57 characters, because Machine names add 6 and are at most 63"
// +kubebuilder:validation:XValidation:rule="has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))",optionalOldSelf=true,reason=FieldValueRequired,fieldPath=".spec",message="is missing: write one, or delete the object"
type MachineSet struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// DecodeError says why spec and status could not be decoded; then both are empty. It is not a field of the API.
	DecodeError string `json:"-"`

	// spec is written by the user or the MachineDeployment.
	// +optional
	Spec MachineSetSpec `json:"spec"`
	// status is written by the hub. Until it has looked, Ready is Unknown.
	// +kubebuilder:default={conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "The hub has not observed this machine set yet", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Reconciling", status: "True", reason: "Pending", message: "The hub has not observed this machine set yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	// +optional
	Status MachineSetStatus `json:"status,omitzero"`
}

// MachineSetSpec is the desired set of Machines.
//
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.selector) || !has(self.selector.matchLabels) || (has(self.template.metadata) && has(self.template.metadata.labels) && self.selector.matchLabels.all(k, k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k]))",message="spec.selector.matchLabels does not match spec.template.metadata.labels: give the template every label of the selector",fieldPath=".selector"
type MachineSetSpec struct {
	// clusterName is the Cluster that the Machines belong to; it equals the namespace's name. Cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.clusterName cannot be changed: create the object in the other cluster's namespace"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	ClusterName string `json:"clusterName"`

	// replicas is the number of Machines, 0 to 10000. Where it is left out, the hub writes what is there: a manifest without it
	// leaves the number to another owner, such as the autoscaler. Default 1 for a new object, within the autoscaler's bounds.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// minReadySeconds is how long a Machine must have been Ready to count as available. Time for which its cluster was
	// frozen does not count. Default 0.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// selector chooses the Machines of this set; the template must carry its labels. Cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.selector cannot be changed: create another object"
	// +required
	Selector MachineSelector `json:"selector"`

	// template of the Machines. A change of metadata, spec.metadata, spec.taints, spec.roles, spec.timeouts or
	// spec.unhealthyNodeConditions reaches the Machines that there are, any other only those made later.
	// +required
	Template MachineTemplate `json:"template"`

	// deletePolicy says which of equally good Machines a scale-down takes. Default Oldest.
	// +kubebuilder:default=Oldest
	// +optional
	DeletePolicy DeletePolicy `json:"deletePolicy,omitempty"`

	// remediation bounds the replacement of failed Machines.
	// +kubebuilder:default={}
	// +optional
	Remediation Remediation `json:"remediation,omitzero"`
}

// DeletePolicy orders the Machines that a scale-down may take. Machines that are marked or unhealthy, or that
// have a lower deletion priority, go first under every policy.
//
// +kubebuilder:validation:Enum=Oldest;Newest;Random
type DeletePolicy string

// The values of DeletePolicy.
const (
	DeleteOldest DeletePolicy = "Oldest"
	DeleteNewest DeletePolicy = "Newest"
	DeleteRandom DeletePolicy = "Random"
)

// Remediation bounds the replacement of failed Machines of one MachineSet.
type Remediation struct {
	// maxUnhealthy is how many Machines of one MachineSet may be unhealthy for any of them to be replaced: a number, or a
	// percentage of its replicas rounded up. Above it nothing is replaced and the condition RemediationAllowed
	// says which Machines need a person. 0 replaces nothing. Default 40%.
	// +kubebuilder:default="40%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000000 : self.matches('^(100|[0-9]{1,2})%$')",message="maxUnhealthy: a number of 0 or more, or a percentage up to 100%; at most 1000000"
	// +optional
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`
	// maxInFlight is how many failed Machines may be in replacement at once: a number of 1 or more, or a
	// percentage of the MachineSet's replicas rounded up. The MachineSets of a MachineDeployment have it together: each
	// counts what the others have in replacement. Default 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 1000000 : self.matches('^(100|[1-9][0-9]?)%$')",message="maxInFlight: a number of 1 or more, or a percentage from 1% to 100%; at most 1000000"
	// +optional
	MaxInFlight *intstr.IntOrString `json:"maxInFlight,omitempty"`
}

// MachineSetStatus is what the hub knows of a MachineSet. Counts may lag by a few seconds: changes that come
// in quick succession are written as one.
type MachineSetStatus struct {
	// observedGeneration is the generation that the hub last worked on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// selector in the text form that the scale subresource needs.
	// +kubebuilder:validation:MaxLength=8192
	// +optional
	Selector string `json:"selector,omitempty"`
	// replicas is the number of Machines, those being deleted too.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is the number of Machines whose Ready condition is True and that are not being deleted.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// availableReplicas is the number of Machines Ready for at least minReadySeconds and not being deleted.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// terminatingReplicas is how many of replicas are being deleted.
	// +optional
	TerminatingReplicas int32 `json:"terminatingReplicas"`

	// conditions: Available, ReplicaFailure, RemediationAllowed, Frozen, Ready, Reconciling, Stalled.
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
