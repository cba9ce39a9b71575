package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SimulatedClusterSet keeps a number of SimulatedClusters of one template, spread over the Clusters that host them. They are named
// <set>-<ordinal>.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:scope=Cluster,shortName=simcs,categories=fleet
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Ready Clusters",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Control Plane",type=string,JSONPath=`.spec.template.spec.versions.controlPlane`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.rollout.clusters.updated`,priority=1
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.rollout.clusters.failed`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 59 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: at most 59 lower-case letters, digits and '-', starting and ending with a letter or digit, because the names of the Clusters add 4 and are also namespaces"
// +kubebuilder:validation:XValidation:rule="!(self.metadata.name in ['kube', 'openshift']) && !self.metadata.name.startsWith('kube-') && !self.metadata.name.startsWith('openshift-') && !self.metadata.name.startsWith('open-cluster-management')",message="metadata.name: the Clusters would have names that are reserved for a namespace of the hub itself or of an agent (kube-*, openshift-*, open-cluster-management*): choose another name"
// +kubebuilder:validation:XValidation:rule="has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))",optionalOldSelf=true,reason=FieldValueRequired,fieldPath=".spec",message="is missing: write one, or delete the object"
type SimulatedClusterSet struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// DecodeError says why spec and status could not be decoded; then both are empty. It is not a field of the API.
	DecodeError string `json:"-"`

	// spec is written by the user.
	// +optional
	Spec SimulatedClusterSetSpec `json:"spec"`
	// status is written by the hub. Until it has looked, Ready is Unknown.
	// +kubebuilder:default={conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "The hub has not observed this simulated cluster set yet", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Reconciling", status: "True", reason: "Pending", message: "The hub has not observed this simulated cluster set yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	// +optional
	Status SimulatedClusterSetStatus `json:"status,omitzero"`
}

// SimulatedClusterSetSpec is the desired set.
type SimulatedClusterSetSpec struct {
	// replicas is the number of SimulatedClusters, 0 to 1000. The lowest free ordinal is created first. A scale-down takes the highest
	// first, and none with the annotation hollowfleet.io/scale-down-disabled. Default 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// hostSelector chooses the Clusters that host them, by labels. Those of which the agent allows it, with the condition
	// SimulatedClustersAllowed, which are not frozen and not simulated themselves, get new ones: the one with the fewest of this set
	// first. A SimulatedCluster never moves.
	// +kubebuilder:validation:XValidation:rule="(!has(self.matchLabels) || self.matchLabels.size() <= 32) && (!has(self.matchExpressions) || self.matchExpressions.size() <= 32)",message="hostSelector: at most 32 labels and 32 expressions"
	// +required
	HostSelector metav1.LabelSelector `json:"hostSelector"`

	// template of the SimulatedClusters. A change of spec.metadata reaches those that there are at once, a later version of the control
	// plane as spec.rollout says, a change of spec.machineClasses, spec.machineDeployments or spec.resources only those made later. An
	// earlier version is started nowhere: a control plane cannot go back. New resources start a control plane again: to give them to one
	// that exists, change its SimulatedCluster.
	// +kubebuilder:default={}
	// +optional
	Template SimulatedClusterTemplate `json:"template,omitzero"`

	// rollout says how a new spec.template.spec.versions reaches the SimulatedClusters that there are.
	// +kubebuilder:default={}
	// +optional
	Rollout SimulatedClusterSetRollout `json:"rollout,omitzero"`
}

// SimulatedClusterTemplate is what the SimulatedClusters of a set are made from.
type SimulatedClusterTemplate struct {
	// spec of the SimulatedClusters.
	// +kubebuilder:default={}
	// +optional
	Spec SimulatedClusterSpec `json:"spec,omitzero"`
}

// SimulatedClusterSetStatus is what the hub knows of a SimulatedClusterSet.
type SimulatedClusterSetStatus struct {
	// observedGeneration is the generation that the hub last worked on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// selector of the SimulatedClusters in the text form that the scale subresource needs.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Selector string `json:"selector,omitempty"`
	// replicas is the number of SimulatedClusters, those being deleted too.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is how many of them are Ready and not being deleted.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// updatedReplicas is how many have the spec of the template and are not being deleted.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// terminatingReplicas is how many of replicas are being deleted.
	// +optional
	TerminatingReplicas int32 `json:"terminatingReplicas"`

	// rollout is how far spec.template.spec.versions is.
	// +optional
	Rollout SimulatedClusterSetRolloutStatus `json:"rollout,omitzero"`

	// conditions: HostsAvailable, ReplicaFailure, Progressing, Frozen, Ready, Reconciling, Stalled.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SimulatedClusterSetList is a list of SimulatedClusterSets.
//
// +kubebuilder:object:root=true
type SimulatedClusterSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []SimulatedClusterSet `json:"items"`
}
