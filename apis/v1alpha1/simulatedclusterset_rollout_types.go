package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
)

// SimulatedClusterSetRollout says how a new version of the control plane reaches the SimulatedClusters that there are. Its fields mean
// what those of a MachineFleet mean; a cluster is that of a SimulatedCluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rolloutStrategy) || !has(self.rolloutStrategy.all) || self.rolloutStrategy.type == 'All'",message="spec.rollout.rolloutStrategy.all: only with type All",fieldPath=".rolloutStrategy"
// +kubebuilder:validation:XValidation:rule="!has(self.rolloutStrategy) || !has(self.rolloutStrategy.progressive) || self.rolloutStrategy.type == 'Progressive'",message="spec.rollout.rolloutStrategy.progressive: only with type Progressive",fieldPath=".rolloutStrategy"
// +kubebuilder:validation:XValidation:rule="!has(self.rolloutStrategy) || !has(self.rolloutStrategy.progressivePerGroup) || self.rolloutStrategy.type == 'ProgressivePerGroup'",message="spec.rollout.rolloutStrategy.progressivePerGroup: only with type ProgressivePerGroup",fieldPath=".rolloutStrategy"
// +kubebuilder:validation:XValidation:rule="!has(self.groups) || self.groups.all(g, has(g.clusterSelector))",message="spec.rollout.groups: each needs a clusterSelector",fieldPath=".groups"
type SimulatedClusterSetRollout struct {
	// rolloutStrategy says in which order, and in how many clusters at once, the control plane gets a new version. Default: Progressive
	// with maxConcurrency 1 and progressDeadline 10m, which stops when one has failed.
	// +kubebuilder:default={type: Progressive, progressive: {maxConcurrency: 1, progressDeadline: "10m"}}
	// +optional
	RolloutStrategy clusterv1alpha1.RolloutStrategy `json:"rolloutStrategy,omitzero"`

	// groups are the decision groups that rolloutStrategy names, in their order. A cluster is in the first whose clusterSelector matches
	// the labels of the Cluster, and keeps it while a version is rolled out.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Groups []MachineFleetGroup `json:"groups,omitempty"`

	// maintenanceWindows are when an upgrade may start in the clusters that they choose. What has started continues.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	MaintenanceWindows []MaintenanceWindow `json:"maintenanceWindows,omitempty"`

	// maintenanceExclusions are when no upgrade starts in the clusters that they choose, whatever the windows say.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	MaintenanceExclusions []MaintenanceExclusion `json:"maintenanceExclusions,omitempty"`

	// unreachablePolicy says what a rollout does about a cluster that is frozen or silent, or whose host is. Nothing is started there in any
	// case. Default Hold.
	// +kubebuilder:default=Hold
	// +optional
	UnreachablePolicy UnreachablePolicy `json:"unreachablePolicy,omitempty"`

	// paused keeps the hub from starting an upgrade. What has started continues. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// abortedRevision is the revision that is to be started in no further cluster. Another one than status.revision does nothing.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	AbortedRevision string `json:"abortedRevision,omitempty"`

	// retriedAt is set to the present time to have the version started again where it has failed, by spec.rollout as it is then.
	// +optional
	RetriedAt *metav1.Time `json:"retriedAt,omitempty"`
}

// SimulatedClusterSetRolloutStatus is how far a version of the control plane is.
type SimulatedClusterSetRolloutStatus struct {
	// revision is what is rolled out: spec.template.spec.versions.controlPlane, or "default" without one.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Revision string `json:"revision,omitempty"`
	// rollout tells the rollouts of the set apart: it is metadata.generation as it was when the hub first saw the revision, or
	// spec.rollout.retriedAt. Approvals are given for one rollout.
	// +optional
	Rollout int64 `json:"rollout,omitempty"`
	// retriedAt is spec.rollout.retriedAt as it was when the rollout got its number.
	// +optional
	RetriedAt *metav1.Time `json:"retriedAt,omitempty"`
	// awaitingApproval names the groups for whose approval the current wave waits.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	AwaitingApproval []string `json:"awaitingApproval,omitempty"`
	// currentWave is the wave that is rolled out, from 1; waves is how many there are.
	// +optional
	CurrentWave int32 `json:"currentWave,omitempty"`
	// waves is how many waves the rollout has, those without clusters included.
	// +optional
	Waves int32 `json:"waves,omitempty"`
	// clusters counts the set's clusters by how far they are.
	// +optional
	Clusters MachineFleetClusters `json:"clusters"`
	// failures are the first 20 clusters, by name, that have failed, or in which nothing can be started.
	// +listType=map
	// +listMapKey=cluster
	// +kubebuilder:validation:MaxItems=20
	// +optional
	Failures []MachineFleetFailure `json:"failures,omitempty"`
	// started is what the rollout keeps to: the clusters that there were when it started, and spec.rollout as it was then. Until the
	// rollout is complete, or spec.rollout.retriedAt is set, nothing starts that it would not have allowed. The hub alone reads it.
	// +mapType=atomic
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +optional
	Started *runtime.RawExtension `json:"started,omitempty"`
	// history has the last 10 rollouts, the newest last.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +optional
	History []SimulatedClusterSetRolloutRecord `json:"history,omitempty"`
}

// SimulatedClusterSetRolloutRecord is what is kept of one rollout.
type SimulatedClusterSetRolloutRecord struct {
	// revision that was rolled out.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Revision string `json:"revision"`
	// rollout is its number.
	// +required
	Rollout int64 `json:"rollout"`
	// startedAt is when the first cluster was started, completedAt when the last one was through; absent until then.
	// +required
	StartedAt metav1.Time `json:"startedAt"`
	// completedAt is when the rollout was complete.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// result is the last reason of Progressing.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Result string `json:"result,omitempty"`
	// updated and failed count clusters.
	// +optional
	Updated int32 `json:"updated"`
	// failed counts the clusters that failed.
	// +optional
	Failed int32 `json:"failed"`
	// approvals are who has approved which group, as GROUP by NAME.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=384
	// +optional
	Approvals []string `json:"approvals,omitempty"`
}
