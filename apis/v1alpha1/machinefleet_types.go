package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
)

// MachineFleet keeps one MachineDeployment of its name in each of many clusters, and applies a new template to them in
// waves.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=mfleet,categories=fleet
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Wave",type=integer,JSONPath=`.status.currentWave`
// +kubebuilder:printcolumn:name="Waves",type=integer,JSONPath=`.status.waves`
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.clusters.selected`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.clusters.updated`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.clusters.failed`
// +kubebuilder:printcolumn:name="Held",type=integer,JSONPath=`.status.clusters.held`
// +kubebuilder:printcolumn:name="Kubelet",type=string,JSONPath=`.spec.template.spec.template.spec.versions.kubelet`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 46",message="metadata.name: at most 46 characters, because the MachineDeployments have the same name, and MachineSet and Machine names add 17 and are at most 63"
// +kubebuilder:validation:XValidation:rule="has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))",optionalOldSelf=true,reason=FieldValueRequired,fieldPath=".spec",message="is missing: write one, or delete the object"
type MachineFleet struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// DecodeError says why spec and status could not be decoded; then both are empty. It is not a field of the API.
	DecodeError string `json:"-"`

	// spec is written by the user.
	// +optional
	Spec MachineFleetSpec `json:"spec"`
	// status is written by the hub. Until it has looked, Ready is Unknown.
	// +kubebuilder:default={conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "The hub has not observed this machine fleet yet", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Reconciling", status: "True", reason: "Pending", message: "The hub has not observed this machine fleet yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	// +optional
	Status MachineFleetStatus `json:"status,omitzero"`
}

// MachineFleetSpec is the desired fleet.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rolloutStrategy) || !has(self.rolloutStrategy.all) || self.rolloutStrategy.type == 'All'",message="spec.rolloutStrategy.all: only with type All",fieldPath=".rolloutStrategy"
// +kubebuilder:validation:XValidation:rule="!has(self.rolloutStrategy) || !has(self.rolloutStrategy.progressive) || self.rolloutStrategy.type == 'Progressive'",message="spec.rolloutStrategy.progressive: only with type Progressive",fieldPath=".rolloutStrategy"
// +kubebuilder:validation:XValidation:rule="!has(self.rolloutStrategy) || !has(self.rolloutStrategy.progressivePerGroup) || self.rolloutStrategy.type == 'ProgressivePerGroup'",message="spec.rolloutStrategy.progressivePerGroup: only with type ProgressivePerGroup",fieldPath=".rolloutStrategy"
// +kubebuilder:validation:XValidation:rule="has(self.clusterSelector) != has(self.placementRef)",message="spec: set exactly one of clusterSelector and placementRef"
// +kubebuilder:validation:XValidation:rule="has(self.placementRef) || !has(self.groups) || self.groups.all(g, has(g.clusterSelector))",message="spec.groups: each needs a clusterSelector, because only with spec.placementRef are there decision groups that a Placement makes",fieldPath=".groups"
type MachineFleetSpec struct {
	// clusterSelector chooses accepted Clusters by their labels; empty chooses all of them. A selection that becomes empty
	// freezes the fleet. Exactly one of clusterSelector and placementRef is set.
	// +kubebuilder:validation:XValidation:rule="(!has(self.matchLabels) || self.matchLabels.size() <= 32) && (!has(self.matchExpressions) || self.matchExpressions.size() <= 32)",message="clusterSelector: at most 32 labels and 32 expressions"
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// placementRef names a Placement of Open Cluster Management on the hub, whose decisions choose accepted Clusters. While its
	// decisions are not known, or not in full, no cluster leaves the fleet; decisions that become empty freeze it.
	// +optional
	PlacementRef *PlacementReference `json:"placementRef,omitempty"`

	// template of the MachineDeployments. A change of it is a new revision, which the clusters get in waves.
	// +required
	Template MachineDeploymentTemplate `json:"template"`

	// replicas of the MachineDeployment in each cluster, 0 to 10000, unless an override says otherwise. A change reaches
	// all clusters at once. Default: the fleet does not write replicas, so that they can be scaled cluster by cluster; a
	// new MachineDeployment has 1.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// replicasFromLabel is the key of a label of Clusters whose value is the number of replicas there. It goes before replicas and
	// overrides, which hold for a Cluster without the label. A value that is not a number leaves the replicas there as they are.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	// +optional
	ReplicasFromLabel string `json:"replicasFromLabel,omitempty"`

	// overrides change replicas and template for some of the clusters. Of those that match a cluster, the first with replicas and
	// the first with a template hold.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Overrides []MachineFleetOverride `json:"overrides,omitempty"`

	// removalPolicy says what happens to the MachineDeployment in a cluster that clusterSelector or placementRef does not choose
	// any more. Default Orphan.
	// +kubebuilder:default=Orphan
	// +optional
	RemovalPolicy RemovalPolicy `json:"removalPolicy,omitempty"`

	// adopt lets the fleet take over a MachineDeployment of its name that it did not make, in its turn. Default false.
	// +optional
	Adopt bool `json:"adopt,omitempty"`

	// allowDowngrade lets a template be rolled out whose kubelet is older than the one that clusters of the fleet have, those
	// whose MachineDeployment is adopted too. Default false.
	// +optional
	AllowDowngrade bool `json:"allowDowngrade,omitempty"`

	// ignorePreflightErrors are checks whose result keeps no template from being started in a cluster. What is started there still
	// waits for disruption budgets and quotas. Default none.
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +optional
	IgnorePreflightErrors []PreflightError `json:"ignorePreflightErrors,omitempty"`

	// healthConditions have to hold on a Cluster, beside what its MachineDeployment says, for a template to have succeeded
	// there. They are those of spec.healthChecks of Clusters, or others that any controller writes. One that is missing or
	// Unknown does not hold.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +optional
	HealthConditions []MachineFleetHealthCondition `json:"healthConditions,omitempty"`

	// unreachablePolicy says what a rollout does about a cluster that is frozen or not Ready. Nothing is started there in any
	// case. Default Hold.
	// +kubebuilder:default=Hold
	// +optional
	UnreachablePolicy UnreachablePolicy `json:"unreachablePolicy,omitempty"`

	// maintenanceWindows are when a template may be started. Outside of them nothing is started in the clusters that they choose;
	// what has started continues, and other changes than of the template are made at any time. A cluster that none of them chooses
	// is always open, and status.message names it; one that several choose is open with each of them.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	MaintenanceWindows []MaintenanceWindow `json:"maintenanceWindows,omitempty"`

	// maintenanceExclusions are when no template is started in the clusters that they choose, whatever the windows say. What has
	// started continues. They also hold for clusters that no window chooses. Default none.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	MaintenanceExclusions []MaintenanceExclusion `json:"maintenanceExclusions,omitempty"`

	// paused keeps the hub from changing any MachineDeployment of the fleet. What has started continues in the clusters and is
	// followed. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// rolloutStrategy says in which order, and to how many clusters at once, a new template is applied. Default All.
	// +kubebuilder:default={type: All}
	// +optional
	RolloutStrategy clusterv1alpha1.RolloutStrategy `json:"rolloutStrategy,omitzero"`

	// groups are the decision groups that rolloutStrategy names, in their order. A cluster is in the first that it
	// matches, and keeps it while a revision is rolled out there.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Groups []MachineFleetGroup `json:"groups,omitempty"`

	// rollbackPolicy says which clusters get back the template that they had before when a rollout stops: because more of them
	// have failed than rolloutStrategy allows, or because of abortedRevision. Default None.
	// +kubebuilder:default=None
	// +optional
	RollbackPolicy RollbackPolicy `json:"rollbackPolicy,omitempty"`

	// abortedRevision is the revision that is to be started in no further cluster. Another one than status.revision does nothing.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	AbortedRevision string `json:"abortedRevision,omitempty"`

	// retriedAt is set to the present time to have the template started again in the clusters that have failed with it or were
	// rolled back. It is not started again while abortedRevision is that of the template.
	// +optional
	RetriedAt *metav1.Time `json:"retriedAt,omitempty"`
}

// PlacementReference names a Placement of Open Cluster Management.
type PlacementReference struct {
	// namespace of the Placement.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Namespace string `json:"namespace"`
	// name of the Placement. It is the value of a label of its decisions, so it has 63 characters at most.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
}

// RollbackPolicy says which clusters get back the template that they had before.
//
// +kubebuilder:validation:Enum=None;Failed;All
type RollbackPolicy string

// The values of RollbackPolicy.
const (
	// RollbackNone: none of them.
	RollbackNone RollbackPolicy = "None"
	// RollbackFailed: those that have failed.
	RollbackFailed RollbackPolicy = "Failed"
	// RollbackAll: every one in which the template was started.
	RollbackAll RollbackPolicy = "All"
)

// PreflightError is a result of the checks in a cluster before a template is started there.
//
// +kubebuilder:validation:Enum=DisruptionNotAllowed;PodQuotaExceeded
type PreflightError string

// The values of PreflightError.
const (
	// PreflightDisruptionNotAllowed: a disruption budget allows no eviction from a Node of the cluster's Machines.
	PreflightDisruptionNotAllowed PreflightError = "DisruptionNotAllowed"
	// PreflightPodQuotaExceeded: a quota leaves no room for the pods that the rollout needs at once.
	PreflightPodQuotaExceeded PreflightError = "PodQuotaExceeded"
)

// MachineFleetHealthCondition is a condition of a Cluster that a fleet rests on.
type MachineFleetHealthCondition struct {
	// type of the condition.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	// +required
	Type string `json:"type"`
	// status that it has to have. Default True.
	// +kubebuilder:validation:Enum=True;False
	// +kubebuilder:default="True"
	// +optional
	Status metav1.ConditionStatus `json:"status,omitempty"`
}

// RemovalPolicy says what happens to the MachineDeployment in a cluster that has left a fleet.
//
// +kubebuilder:validation:Enum=Orphan;Delete
type RemovalPolicy string

// The values of RemovalPolicy.
const (
	// RemovalOrphan: it stays as it is.
	RemovalOrphan RemovalPolicy = "Orphan"
	// RemovalDelete: it is deleted, unless the selection has become empty, or the cluster is frozen or gone.
	RemovalDelete RemovalPolicy = "Delete"
)

// UnreachablePolicy says what a rollout does about a cluster that is frozen or not Ready.
//
// +kubebuilder:validation:Enum=Hold;Skip;Fail
type UnreachablePolicy string

// The values of UnreachablePolicy.
const (
	// UnreachableHold: it keeps its place, and its wave waits for it.
	UnreachableHold UnreachablePolicy = "Hold"
	// UnreachableSkip: its wave continues without it, and it catches up when it is back. A mandatory group waits all the same.
	UnreachableSkip UnreachablePolicy = "Skip"
	// UnreachableFail: it counts as failed until it is back.
	UnreachableFail UnreachablePolicy = "Fail"
)

// MaxReplicas is how many replicas a MachineFleet may give to a cluster.
const MaxReplicas = 10000

// MachineFleetOverride changes the fleet's settings for some clusters.
//
// +kubebuilder:validation:XValidation:rule="has(self.replicas) || has(self.template)",message="spec.overrides: set replicas or template, or both"
type MachineFleetOverride struct {
	// name of the override.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// clusterSelector chooses the clusters by their labels; empty chooses all.
	// +kubebuilder:validation:XValidation:rule="(!has(self.matchLabels) || self.matchLabels.size() <= 32) && (!has(self.matchExpressions) || self.matchExpressions.size() <= 32)",message="clusterSelector: at most 32 labels and 32 expressions"
	// +required
	ClusterSelector metav1.LabelSelector `json:"clusterSelector"`
	// replicas of the MachineDeployment in each of these clusters, 0 to 10000.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// template has the form of spec.template, with those fields only that are to be different in these clusters. It is a strategic
	// merge patch: maps are merged, lists are replaced, and null removes a field. It cannot change the selector. Each has
	// at most 32768 characters and 10 levels, and all together 256 KiB.
	// +mapType=atomic
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +optional
	Template *runtime.RawExtension `json:"template,omitempty"`
}

// MachineFleetGroup is a decision group.
type MachineFleetGroup struct {
	// name by which rolloutStrategy names the group.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// clusterSelector chooses the group's clusters by their labels; empty chooses all. Default, with spec.placementRef only: the
	// clusters of the Placement's decision group of this name.
	// +kubebuilder:validation:XValidation:rule="(!has(self.matchLabels) || self.matchLabels.size() <= 32) && (!has(self.matchExpressions) || self.matchExpressions.size() <= 32)",message="clusterSelector: at most 32 labels and 32 expressions"
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
	// approval Required: a template is applied to the group's clusters only while there is a FleetApproval of the group for this
	// rollout. Default NotRequired.
	// +optional
	Approval GroupApproval `json:"approval,omitempty"`
}

// GroupApproval says whether a new template waits for an approval before it is applied to a group.
//
// +kubebuilder:validation:Enum=NotRequired;Required
type GroupApproval string

// The values of GroupApproval.
const (
	GroupApprovalNotRequired GroupApproval = "NotRequired"
	GroupApprovalRequired    GroupApproval = "Required"
)

// MachineFleetList is a list of MachineFleets.
//
// +kubebuilder:object:root=true
type MachineFleetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []MachineFleet `json:"items"`
}
