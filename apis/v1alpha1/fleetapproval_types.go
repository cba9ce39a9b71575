package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FleetApproval lets one rollout of a MachineFleet be applied to one group whose approval is Required. It counts for exactly the fleet,
// revision, rollout and group that it names, for as long as it exists: deleting it before the group starts takes it back. Whoever
// creates one needs the verb approve on the MachineFleet, and no right to change the fleet.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=fapproval,categories=fleet
// +kubebuilder:selectablefield:JSONPath=`.spec.fleetUID`
// +kubebuilder:selectablefield:JSONPath=`.spec.rollout`
// +kubebuilder:printcolumn:name="Fleet",type=string,JSONPath=`.spec.fleet`
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.group`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.spec.revision`
// +kubebuilder:printcolumn:name="Rollout",type=integer,JSONPath=`.spec.rollout`
// +kubebuilder:printcolumn:name="Approver",type=string,JSONPath=`.spec.approver`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FleetApproval struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// DecodeError says why the spec could not be decoded; then it is empty. It is not a field of the API.
	DecodeError string `json:"-"`

	// spec is written by the approver. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec: an approval cannot be changed: delete it and approve again"
	// +required
	Spec FleetApprovalSpec `json:"spec"`
}

// FleetApprovalSpec is what is approved, and by whom.
type FleetApprovalSpec struct {
	// kind of what is approved. With SimulatedClusterSet the other fields are about one, and its spec.rollout and status.rollout. Default
	// MachineFleet.
	// +kubebuilder:default=MachineFleet
	// +optional
	Kind ApprovedKind `json:"kind,omitempty"`
	// fleet is the name of the MachineFleet.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Fleet string `json:"fleet"`
	// fleetUID is metadata.uid of the MachineFleet. A fleet that was deleted and created again, or restored from a backup, has
	// another one, and needs another approval.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	FleetUID string `json:"fleetUID"`
	// revision of the templates, as status.revision of the MachineFleet has it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Revision string `json:"revision"`
	// rollout of the revision, as status.rollout of the MachineFleet has it. Templates that are gone back to, and a retry, are another
	// rollout.
	// +kubebuilder:validation:Minimum=1
	// +required
	Rollout int64 `json:"rollout"`
	// group is the name of a group of spec.groups of the MachineFleet.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Group string `json:"group"`
	// approver is the name of the user who creates the object, as "kubectl auth whoami" prints it. The admission policy
	// hollowfleet-approvals refuses another one.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Approver string `json:"approver"`
}

// ApprovedKind is a kind whose rollouts can be approved.
//
// +kubebuilder:validation:Enum=MachineFleet;SimulatedClusterSet
type ApprovedKind string

// The values of ApprovedKind.
const (
	ApprovedFleet ApprovedKind = "MachineFleet"
	ApprovedSet   ApprovedKind = "SimulatedClusterSet"
)

// FleetApprovalList is a list of FleetApprovals.
//
// +kubebuilder:object:root=true
type FleetApprovalList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []FleetApproval `json:"items"`
}
