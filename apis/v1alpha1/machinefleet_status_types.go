package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MachineFleetStatus is what the hub knows of a fleet. Counts may lag by a few seconds: changes that come in quick
// succession are written as one.
type MachineFleetStatus struct {
	// observedGeneration is the generation that the hub last worked on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// revision is a hash of spec.template and the templates of spec.overrides: the same templates are the same revision.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Revision string `json:"revision,omitempty"`
	// rollout tells the rollouts of the fleet apart: it is metadata.generation as it was when the hub first saw the revision, or
	// spec.retriedAt. Approvals are given for one rollout.
	// +optional
	Rollout int64 `json:"rollout,omitempty"`
	// retriedAt is spec.retriedAt as it was when the rollout got its number.
	// +optional
	RetriedAt *metav1.Time `json:"retriedAt,omitempty"`
	// awaitingApproval names the groups for whose approval the current wave waits.
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	AwaitingApproval []string `json:"awaitingApproval,omitempty"`
	// currentWave is the wave that is rolled out, from 1; waves is how many there are.
	// +optional
	CurrentWave int32 `json:"currentWave,omitempty"`
	// waves is how many waves the rollout has, those without clusters included.
	// +optional
	Waves int32 `json:"waves,omitempty"`
	// clusters counts the fleet's clusters.
	// +optional
	Clusters MachineFleetClusters `json:"clusters"`
	// failures are the first 20 clusters, by name, that have failed, also those that were rolled back then, or in which nothing
	// can be started.
	// +listType=map
	// +listMapKey=cluster
	// +kubebuilder:validation:MaxItems=20
	// +optional
	Failures []MachineFleetFailure `json:"failures,omitempty"`
	// message says how the fleet is, and what a user can do.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
	// conditions: Progressing, Available, Frozen, Ready, Reconciling, Stalled.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MachineFleetClusters counts clusters by how far they are with the current revision. Each that is selected, or has left
// in the middle of the revision, is in one of waiting, progressing, soaking, updated, failed, rollingBack and rolledBack.
type MachineFleetClusters struct {
	// selected is how many clusters the fleet has now.
	// +optional
	Selected int32 `json:"selected"`
	// waiting is those that do not have the revision yet.
	// +optional
	Waiting int32 `json:"waiting"`
	// progressing is those that have it and do not report success yet.
	// +optional
	Progressing int32 `json:"progressing"`
	// soaking is those that report success, and have to keep doing so for minSuccessTime.
	// +optional
	Soaking int32 `json:"soaking"`
	// updated is those that did so.
	// +optional
	Updated int32 `json:"updated"`
	// failed is those that reported that they cannot continue, or were not in time, also in a rollback, and with unreachablePolicy
	// Fail those that are frozen or not Ready.
	// +optional
	Failed int32 `json:"failed"`
	// rollingBack is those that have got back the template that they had before, and do not report success yet.
	// +optional
	RollingBack int32 `json:"rollingBack"`
	// rolledBack is those that did so.
	// +optional
	RolledBack int32 `json:"rolledBack"`
	// held is those that are not updated and frozen or not Ready: nothing is started there, and nothing that they report
	// counts.
	// +optional
	Held int32 `json:"held"`
	// blocked is those in which nothing can be started until a user changes something; failures says what.
	// +optional
	Blocked int32 `json:"blocked"`
}

// MachineFleetFailure says what is wrong in one cluster.
type MachineFleetFailure struct {
	// cluster is its name.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Cluster string `json:"cluster"`
	// reason is a word for it.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says what is wrong, and what a user can do.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Message string `json:"message,omitempty"`
}
