package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MachineDeployment keeps a number of Machines and replaces them when their template changes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=md,categories=fleet
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name="Ready Machines",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Frozen",type=string,JSONPath=`.status.conditions[?(@.type=="Frozen")].status`
// +kubebuilder:printcolumn:name="Kubelet",type=string,JSONPath=`.spec.template.spec.versions.kubelet`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 46",message="metadata.name: at most 46 characters, because MachineSet and Machine names add 17 and are at most 63"
// +kubebuilder:validation:XValidation:rule="has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))",optionalOldSelf=true,reason=FieldValueRequired,fieldPath=".spec",message="is missing: write one, or delete the object"
type MachineDeployment struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// DecodeError says why spec and status could not be decoded; then both are empty. It is not a field of the API.
	DecodeError string `json:"-"`

	// spec is written by the user; replicas also through the scale subresource.
	// +optional
	Spec MachineDeploymentSpec `json:"spec"`
	// status is written by the hub. Until it has looked, Ready is Unknown.
	// +kubebuilder:default={conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "The hub has not observed this machine deployment yet", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Reconciling", status: "True", reason: "Pending", message: "The hub has not observed this machine deployment yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	// +optional
	Status MachineDeploymentStatus `json:"status,omitzero"`
}

// MachineDeploymentSpec is the desired deployment.
//
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.selector.matchLabels) || self.selector.matchLabels.size() <= 15",message="spec.selector.matchLabels: at most 15 labels, because the hub adds the template's hash to a MachineSet's 16",fieldPath=".selector.matchLabels"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.template.metadata) || !has(self.template.metadata.labels) || self.template.metadata.labels.size() <= 63",message="spec.template.metadata.labels: at most 63 labels, because the hub adds the template's hash to a MachineSet's 64",fieldPath=".template.metadata.labels"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.selector) || !has(self.selector.matchLabels) || (has(self.template.metadata) && has(self.template.metadata.labels) && self.selector.matchLabels.all(k, k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k]))",message="spec.selector.matchLabels does not match spec.template.metadata.labels: give the template every label of the selector",fieldPath=".selector"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.template.spec) || !has(self.template.spec.configSource) || !has(self.template.spec.configSource.resolved)",message="spec.template.spec.configSource.resolved: the hub writes it into MachineSets and Machines: remove it, and set sha256 to keep a content",fieldPath=".template.spec.configSource"
// +kubebuilder:validation:XValidation:rule="!has(self.progressDeadlineSeconds) || !has(self.minReadySeconds) || self.progressDeadlineSeconds > self.minReadySeconds",message="spec.progressDeadlineSeconds: must be more than spec.minReadySeconds, or no rollout could ever be in time",fieldPath=".progressDeadlineSeconds"
type MachineDeploymentSpec struct {
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

	// selector chooses the MachineSets and Machines of this deployment; the template must carry its labels.
	// Cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.selector cannot be changed: create another object"
	// +required
	Selector MachineSelector `json:"selector"`

	// template of the Machines. A change of metadata, spec.metadata, spec.taints, spec.roles, spec.timeouts or
	// spec.unhealthyNodeConditions reaches the Machines that there are; any other makes a new MachineSet.
	// +required
	Template MachineTemplate `json:"template"`

	// strategy says how Machines of an older template are replaced.
	// +kubebuilder:default={type: RollingUpdate}
	// +optional
	Strategy MachineDeploymentStrategy `json:"strategy,omitzero"`

	// minReadySeconds is how long a Machine must have been Ready to count as available. Time for which its cluster was
	// frozen does not count. Default 0.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// progressDeadlineSeconds is how long a rollout may make no progress until Progressing turns False. The
	// rollout keeps trying. Frozen and paused time does not count. Must be more than minReadySeconds. Default 1800.
	// +kubebuilder:default=1800
	// +kubebuilder:validation:Minimum=1
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// revisionHistoryLimit is how many MachineSets of older templates are kept at 0 replicas. Default 10.
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// paused stops a rollout where it is; scaling and replacing lost Machines continue. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// deletePolicy says which of equally good Machines a scale-down takes. Default Oldest.
	// +kubebuilder:default=Oldest
	// +optional
	DeletePolicy DeletePolicy `json:"deletePolicy,omitempty"`

	// remediation bounds the replacement of failed Machines.
	// +kubebuilder:default={}
	// +optional
	Remediation Remediation `json:"remediation,omitzero"`
}

// MachineDeploymentStrategyType names a way to replace Machines.
//
// +kubebuilder:validation:Enum=RollingUpdate;InPlace;Recreate;OnDelete
type MachineDeploymentStrategyType string

// The strategies.
const (
	// RollingUpdate replaces Machines step by step within maxSurge and maxUnavailable.
	RollingUpdate MachineDeploymentStrategyType = "RollingUpdate"
	// InPlace updates Machines where they are, with the same name and Node, within maxUnavailable: cordon, drain,
	// update, wait until Ready, uncordon. A Machine whose provider cannot do that is replaced.
	InPlace MachineDeploymentStrategyType = "InPlace"
	// Recreate deletes all Machines of older templates before it makes new ones.
	Recreate MachineDeploymentStrategyType = "Recreate"
	// OnDelete replaces a Machine when a user deletes it.
	OnDelete MachineDeploymentStrategyType = "OnDelete"
)

// MachineDeploymentStrategy says how to replace Machines of an older template.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || self.type == 'RollingUpdate'",message="spec.strategy.rollingUpdate: only with type RollingUpdate"
// +kubebuilder:validation:XValidation:rule="!has(self.inPlace) || self.type == 'InPlace'",message="spec.strategy.inPlace: only with type InPlace"
type MachineDeploymentStrategy struct {
	// type of the strategy. Default RollingUpdate.
	// +kubebuilder:default=RollingUpdate
	// +optional
	Type MachineDeploymentStrategyType `json:"type,omitempty"`
	// rollingUpdate bounds a rolling update. Only with type RollingUpdate.
	// +optional
	RollingUpdate *RollingUpdateBounds `json:"rollingUpdate,omitempty"`
	// inPlace bounds an update in place. Only with type InPlace.
	// +optional
	InPlace *InPlaceUpdate `json:"inPlace,omitempty"`
}

// InPlaceUpdate bounds an update in place.
type InPlaceUpdate struct {
	// maxUnavailable is how many Machines fewer than replicas may be available: a number of 1 or more, or a
	// percentage of replicas rounded down, but at least 1. Default 1.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 1000000 : self.matches('^(100|[1-9][0-9]?)%$')",message="maxUnavailable: a number of 1 or more, or a percentage from 1% to 100%, at most 1000000, because a Machine is not available while it is updated"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// trigger says what starts the update of a Machine. Default Auto.
	// +kubebuilder:default=Auto
	// +optional
	Trigger InPlaceTrigger `json:"trigger,omitempty"`
}

// InPlaceTrigger says what starts the update of a Machine in place.
//
// +kubebuilder:validation:Enum=Auto;Manual
type InPlaceTrigger string

// The values of InPlaceTrigger.
const (
	// InPlaceAuto: the hub chooses the next Machine.
	InPlaceAuto InPlaceTrigger = "Auto"
	// InPlaceManual: only a Machine with the label hollowfleet.io/update-in-place=true is updated.
	InPlaceManual InPlaceTrigger = "Manual"
)

// RollingUpdateBounds bound a rolling update at every instant.
//
// +kubebuilder:validation:XValidation:rule="!((has(self.maxSurge) && (self.maxSurge == 0 || self.maxSurge == '0%')) && (!has(self.maxUnavailable) || self.maxUnavailable == 0 || self.maxUnavailable == '0%'))",message="spec.strategy.rollingUpdate: maxSurge and maxUnavailable are both 0, so nothing could ever be replaced: raise one of them"
type RollingUpdateBounds struct {
	// maxSurge is how many Machines more than replicas may exist: a number, or a percentage of replicas
	// rounded up. Default 1.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000000 : self.matches('^[0-9]{1,3}%$')",message="maxSurge: a number of 0 or more, or a percentage such as 10%; at most 1000000"
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// maxUnavailable is how many Machines fewer than replicas may be available: a number, or a percentage of
	// replicas rounded down. Default 0.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000000 : self.matches('^(100|[0-9]{1,2})%$')",message="maxUnavailable: a number of 0 or more, or a percentage up to 100%; at most 1000000"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// surgeGroup names a surge that several MachineDeployments of the namespace share: all that have the same
	// surgeGroup. This one makes a Machine beyond its replicas only while all of them together have fewer than its
	// maxSurge beyond theirs. A percentage is of the sum of the group's replicas. maxUnavailable stays its own.
	// Default none: maxSurge is its own too.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="surgeGroup: at most 63 lower-case letters, digits and '-', with a letter or digit first and last, such as zones"
	// +optional
	SurgeGroup string `json:"surgeGroup,omitempty"`
}

// MachineDeploymentStatus is what the hub knows of a MachineDeployment. Counts may lag by a few seconds:
// changes that come in quick succession are written as one.
type MachineDeploymentStatus struct {
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
	// updatedReplicas is the number of Machines of the current template that are not being deleted.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// readyReplicas is the number of Machines whose Ready condition is True and that are not being deleted.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// availableReplicas is the number of Machines Ready for at least minReadySeconds and not being deleted.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// terminatingReplicas is how many of replicas are being deleted.
	// +optional
	TerminatingReplicas int32 `json:"terminatingReplicas"`
	// unavailableReplicas is how many available Machines are missing to spec.replicas.
	// +optional
	UnavailableReplicas int32 `json:"unavailableReplicas"`
	// collisionCount resolves clashes of the template hash.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`

	// conditions: Available, Progressing, ReplicaFailure, RemediationAllowed, Frozen, Ready, Reconciling, Stalled.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MachineDeploymentTemplate is what the MachineDeployments of a fleet are made from.
type MachineDeploymentTemplate struct {
	// metadata of the MachineDeployments.
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitzero"`
	// spec of the MachineDeployments, without what is particular to one.
	// +required
	Spec MachineDeploymentTemplateSpec `json:"spec"`
}

// MachineDeploymentTemplateSpec has the fields of a MachineDeployment's spec, with the same meanings, but for clusterName,
// replicas and paused.
//
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.selector.matchLabels) || self.selector.matchLabels.size() <= 15",message="spec.template.spec.selector.matchLabels: at most 15 labels, because the hub adds the template's hash to a MachineSet's 16",fieldPath=".selector.matchLabels"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.template.metadata) || !has(self.template.metadata.labels) || self.template.metadata.labels.size() <= 63",message="spec.template.spec.template.metadata.labels: at most 63 labels, because the hub adds the template's hash to a MachineSet's 64",fieldPath=".template.metadata.labels"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.selector) || !has(self.selector.matchLabels) || (has(self.template.metadata) && has(self.template.metadata.labels) && self.selector.matchLabels.all(k, k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k]))",message="spec.template.spec.selector.matchLabels does not match spec.template.spec.template.metadata.labels: give the template every label of the selector",fieldPath=".selector"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.template.spec) || !has(self.template.spec.configSource) || (has(self.template.spec.configSource.sha256) && !has(self.template.spec.configSource.resolved))",message="spec.template.spec.template.spec.configSource: set sha256 to the SHA-256 of the content that is meant, and not resolved, so that a new content is a new template and reaches the clusters in waves",fieldPath=".template.spec.configSource"
// +kubebuilder:validation:XValidation:rule="!has(self.progressDeadlineSeconds) || !has(self.minReadySeconds) || self.progressDeadlineSeconds > self.minReadySeconds",message="spec.template.spec.progressDeadlineSeconds: must be more than spec.template.spec.minReadySeconds, or no rollout could ever be in time",fieldPath=".progressDeadlineSeconds"
type MachineDeploymentTemplateSpec struct {
	// selector chooses the MachineSets and Machines of each deployment; the template must carry its labels. Cannot be
	// changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.template.spec.selector cannot be changed: create another object"
	// +required
	Selector MachineSelector `json:"selector"`

	// template of the Machines.
	// +required
	Template MachineTemplate `json:"template"`

	// strategy says how Machines of an older template are replaced.
	// +kubebuilder:default={type: RollingUpdate}
	// +optional
	Strategy MachineDeploymentStrategy `json:"strategy,omitzero"`

	// minReadySeconds is how long a Machine must have been Ready to count as available. Default 0.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// progressDeadlineSeconds is how long the rollout in a cluster may make no progress; then the cluster has failed. Frozen
	// and paused time does not count. Must be more than minReadySeconds. Default 1800.
	// +kubebuilder:default=1800
	// +kubebuilder:validation:Minimum=1
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// revisionHistoryLimit is how many MachineSets of older templates each deployment keeps at 0 replicas. Default 10.
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// deletePolicy says which of equally good Machines a scale-down takes. Default Oldest.
	// +kubebuilder:default=Oldest
	// +optional
	DeletePolicy DeletePolicy `json:"deletePolicy,omitempty"`

	// remediation bounds the replacement of failed Machines.
	// +kubebuilder:default={}
	// +optional
	Remediation Remediation `json:"remediation,omitzero"`
}

// MachineDeploymentList is a list of MachineDeployments.
//
// +kubebuilder:object:root=true
type MachineDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []MachineDeployment `json:"items"`
}
