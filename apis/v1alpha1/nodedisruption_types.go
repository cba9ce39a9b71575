package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeDisruption lets Nodes of many clusters fail: at once, or again and again by a schedule. The hub makes one NodeDisruptionRun
// in each cluster that is chosen, which the cluster's agent carries out, and sums up what they say. Deleting or pausing it
// restores all Nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nd,categories=fleet
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Verdict",type=string,JSONPath=`.status.verdict`
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.clusters`
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.selected`
// +kubebuilder:printcolumn:name="Injected",type=integer,JSONPath=`.status.injected`
// +kubebuilder:printcolumn:name="Observed",type=integer,JSONPath=`.status.observed`
// +kubebuilder:printcolumn:name="Recovered",type=integer,JSONPath=`.status.recovered`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52",message="metadata.name: at most 52 characters, because the runs have longer names"
// +kubebuilder:validation:XValidation:rule="has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))",optionalOldSelf=true,reason=FieldValueRequired,fieldPath=".spec",message="is missing: write one, or delete the object"
type NodeDisruption struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// DecodeError says why spec and status could not be decoded; then both are empty. It is not a field of the API.
	DecodeError string `json:"-"`

	// spec is written by the user. Only paused and dryRun can be changed later.
	// +optional
	Spec NodeDisruptionSpec `json:"spec"`
	// status is written by the hub.
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "The hub has not observed this disruption yet", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Reconciling", status: "True", reason: "Pending", message: "The hub has not observed this disruption yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	// +optional
	Status NodeDisruptionStatus `json:"status,omitzero"`
}

// NodeDisruptionSpec is which clusters are disrupted, and how.
//
// +kubebuilder:validation:XValidation:rule="has(self.clusterSelector) != has(self.placementRef)",message="spec: set exactly one of clusterSelector and placementRef"
type NodeDisruptionSpec struct {
	// clusterSelector chooses accepted clusters by the labels of their Cluster, when a run starts. An empty selector chooses all. Exactly
	// one of clusterSelector and placementRef is set.
	// +kubebuilder:validation:XValidation:rule="(!has(self.matchLabels) || self.matchLabels.size() <= 32) && (!has(self.matchExpressions) || self.matchExpressions.size() <= 32)",message="clusterSelector: at most 32 labels and 32 expressions"
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
	// placementRef names a Placement of Open Cluster Management on the hub, whose decisions when a run starts are the clusters.
	// +optional
	PlacementRef *PlacementReference `json:"placementRef,omitempty"`

	Disruption `json:",inline"`

	// schedule starts runs again and again, in the five fields of crontab and in UTC, such as "0 3 * * *". At a time at which runs
	// of the disruption are still continuing none start; times that are past when the hub sees them are left out. Default: once,
	// when the disruption is created.
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[-0-9A-Za-z*/,? ]+$`
	// +optional
	Schedule string `json:"schedule,omitempty"`

	// paused restores the Nodes and starts no runs. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// dryRun starts no runs: status.preview says what would be hit, and what the node-lifecycle controller would make of it. It
	// makes runs that are paused for that. Runs that have started continue. Default false.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// NodeDisruptionStatus sums up the latest runs of a disruption.
type NodeDisruptionStatus struct {
	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase says how far the latest runs are: Pending, Running, Paused, Completed or Failed. With a schedule it is Pending between
	// runs.
	// +optional
	Phase NodeDisruptionRunPhase `json:"phase,omitempty"`
	// message says how the disruption is, and what a user can do.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
	// lastScheduleTime is for which time the latest runs were made: without a schedule, when the hub made them.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// nextScheduleTime is when the next runs start. Absent without a schedule, and while paused.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// clusters is in how many clusters the latest runs are.
	// +optional
	Clusters int32 `json:"clusters"`
	// completed is how many of those runs are over as the spec says.
	// +optional
	Completed int32 `json:"completed"`
	// failed is how many of them could not be carried out, or have the verdict Failed.
	// +optional
	Failed int32 `json:"failed"`
	// selected, injected, observed and recovered are the sums of what the runs count: Nodes that are hit.
	// +optional
	Selected int32 `json:"selected"`
	// injected is on how many of them a fault has started.
	// +optional
	Injected int32 `json:"injected"`
	// observed is on how many of them their API servers have shown that something is wrong.
	// +optional
	Observed int32 `json:"observed"`
	// recovered is how many of those are healthy again.
	// +optional
	Recovered int32 `json:"recovered"`
	// expectations are how far each of the spec's is met on the Nodes of all clusters, in the same order.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Expectations []ExpectationResult `json:"expectations,omitempty"`
	// verdict is Failed as soon as one run's is or one run could not be carried out, Passed when those of all runs are, and Unknown when
	// all runs are over and none has failed, but one is Unknown. Empty otherwise.
	// +optional
	Verdict DisruptionVerdict `json:"verdict,omitempty"`
	// failures are the clusters whose runs have failed, by name, 20 at most.
	// +listType=map
	// +listMapKey=cluster
	// +kubebuilder:validation:MaxItems=20
	// +optional
	Failures []ClusterFailure `json:"failures,omitempty"`
	// preview is what a dry run would hit, by cluster, 20 clusters at most.
	// +listType=map
	// +listMapKey=cluster
	// +kubebuilder:validation:MaxItems=20
	// +optional
	Preview []DisruptionPreview `json:"preview,omitempty"`
	// conditions: Ready, which is True when the latest runs are over, Reconciling and Stalled.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterFailure is why a cluster was left out, or its run has failed or is Invalid.
type ClusterFailure struct {
	// cluster that it is about.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Cluster string `json:"cluster"`
	// message says why.
	// +kubebuilder:validation:MaxLength=512
	// +required
	Message string `json:"message"`
}

// DisruptionPreview is what would be hit in a cluster.
type DisruptionPreview struct {
	// cluster whose Nodes these are.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Cluster     string `json:"cluster"`
	NodePreview `json:",inline"`
}

// NodePreview is which Nodes of a cluster would be hit, and what follows from that.
type NodePreview struct {
	// selected is how many Nodes would be hit.
	// +required
	Selected int32 `json:"selected"`
	// nodes are the names of the first 10 of them.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Nodes []string `json:"nodes,omitempty"`
	// warnings say which thresholds of the node-lifecycle controller would be crossed, and why no Node is hit.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=512
	// +optional
	Warnings []string `json:"warnings,omitempty"`
}

// NodeDisruptionList is a list of disruptions.
//
// +kubebuilder:object:root=true
type NodeDisruptionList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// items is the list of disruptions.
	Items []NodeDisruption `json:"items"`
}
