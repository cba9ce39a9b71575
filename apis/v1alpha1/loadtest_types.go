package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LoadTest puts the same load on many clusters at the same time, and merges what was measured. The hub makes one LoadTestRun in
// each cluster that is chosen, which the cluster's agent carries out.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=lt,categories=fleet
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Verdict",type=string,JSONPath=`.status.verdict`
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.clusters`
// +kubebuilder:printcolumn:name="Completed",type=integer,JSONPath=`.status.completed`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="Invalid",type=integer,JSONPath=`.status.invalid`
// +kubebuilder:printcolumn:name="Missed",type=integer,JSONPath=`.status.missed`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52",message="metadata.name: at most 52 characters, because the disruption beside it has a longer one"
// +kubebuilder:validation:XValidation:rule="has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))",optionalOldSelf=true,reason=FieldValueRequired,fieldPath=".spec",message="is missing: write one, or delete the object"
type LoadTest struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// DecodeError says why spec and status could not be decoded; then both are empty. It is not a field of the API.
	DecodeError string `json:"-"`

	// spec is written by the user. Only stopped can be changed later.
	// +optional
	Spec LoadTestSpec `json:"spec"`
	// status is written by the hub.
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "The hub has not observed this load test yet", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Reconciling", status: "True", reason: "Pending", message: "The hub has not observed this load test yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	// +optional
	Status LoadTestStatus `json:"status,omitzero"`
}

// LoadTestSpec is which clusters are loaded, and with what.
//
// +kubebuilder:validation:XValidation:rule="has(self.clusterSelector) != has(self.placementRef)",message="spec: set exactly one of clusterSelector and placementRef"
// +kubebuilder:validation:XValidation:rule="has(self.preset) != has(self.load)",message="spec: set exactly one of preset and load"
type LoadTestSpec struct {
	// clusterSelector chooses the clusters by the labels of their Cluster, when the test starts. An empty selector chooses all. Exactly
	// one of clusterSelector and placementRef is set.
	// +kubebuilder:validation:XValidation:rule="(!has(self.matchLabels) || self.matchLabels.size() <= 32) && (!has(self.matchExpressions) || self.matchExpressions.size() <= 32)",message="clusterSelector: at most 32 labels and 32 expressions"
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
	// placementRef names a Placement of Open Cluster Management on the hub, whose decisions when the test starts are the clusters.
	// +optional
	PlacementRef *PlacementReference `json:"placementRef,omitempty"`

	// preset is a load that the hub knows. Exactly one of preset and load is set.
	// +optional
	Preset *LoadPreset `json:"preset,omitempty"`
	// load is what is done in each cluster.
	// +optional
	Load *Load `json:"load,omitempty"`

	// disruption lets Nodes of the clusters fail during the test. timing.startAfter counts from about the beginning of the load:
	// the hub makes a NodeDisruptionRun in each cluster when it sets the time of the beginning.
	// +optional
	Disruption *Disruption `json:"disruption,omitempty"`

	// prepareTimeout is how long the hub waits for the clusters to be prepared, before it starts without those that are not, 1s to
	// 1h. Default 1m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="prepareTimeout: must be from 1s to 1h"
	// +kubebuilder:default="1m"
	// +optional
	PrepareTimeout metav1.Duration `json:"prepareTimeout,omitzero"`

	// stopped ends the runs in all clusters. What was measured is kept, what was made is removed. Default false.
	// +optional
	Stopped bool `json:"stopped,omitempty"`
}

// LoadPreset is a load that the hub knows, and how much of it. What is not set has a default of the preset.
type LoadPreset struct {
	// name of the preset: pod-startup, node-churn, api-mix or density. The hub says in the status if it does not know it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
	// pods is how many pods there are in each cluster, 1 to 100000.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Pods int32 `json:"pods,omitempty"`
	// podsPerNode is how many pods there are for each hollow Node that is Ready, instead of pods, 1 to 500.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=500
	// +optional
	PodsPerNode int32 `json:"podsPerNode,omitempty"`
	// namespaces is how many namespaces they are spread over in each cluster, 1 to 100.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Namespaces int32 `json:"namespaces,omitempty"`
	// qps is how many requests are made in a second in each cluster, 1 to 1000.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	QPS int32 `json:"qps,omitempty"`
	// duration of what continues for a time, at most 24h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="preset.duration: must be from 1s to 24h"
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
	// thresholds in place of those of the preset.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Thresholds []LoadThreshold `json:"thresholds,omitempty"`
	// cleanupPolicy says what happens to what the runs made. Default Delete.
	// +kubebuilder:default=Delete
	// +optional
	CleanupPolicy LoadCleanupPolicy `json:"cleanupPolicy,omitempty"`
	// seed decides random times: the same for the same seed. Default 0.
	// +optional
	Seed int64 `json:"seed,omitempty"`
}

// LoadTestPhase says how far a load test is.
//
// +kubebuilder:validation:Enum=Pending;Preparing;Running;CleaningUp;Completed;Failed
type LoadTestPhase string

// The values of LoadTestPhase.
const (
	// LoadTestPhasePending: the hub has made no run.
	LoadTestPhasePending LoadTestPhase = "Pending"
	// LoadTestPhasePreparing: not all runs are prepared.
	LoadTestPhasePreparing LoadTestPhase = "Preparing"
	// LoadTestPhaseRunning: the time of the beginning is set.
	LoadTestPhaseRunning LoadTestPhase = "Running"
	// LoadTestPhaseCleaningUp: all has been measured, and runs remove what they made.
	LoadTestPhaseCleaningUp LoadTestPhase = "CleaningUp"
	// LoadTestPhaseCompleted: all runs are over, or the hub does not wait for one any longer. The verdict says how it was.
	LoadTestPhaseCompleted LoadTestPhase = "Completed"
	// LoadTestPhaseFailed: it could not be started in any cluster; the message says why.
	LoadTestPhaseFailed LoadTestPhase = "Failed"
)

// LoadTestStatus is what the hub knows of a load test.
type LoadTestStatus struct {
	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase says how far the test is: Pending, Preparing, Running, CleaningUp, Completed or Failed.
	// +optional
	Phase LoadTestPhase `json:"phase,omitempty"`
	// message says how the test is, and what a user can do.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
	// prepareTime is when the hub started to make the runs.
	// +optional
	PrepareTime *metav1.Time `json:"prepareTime,omitempty"`
	// startTime is the time of the beginning that all runs have.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// endTime is when the last run that was measured has ended.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// clusters is in how many clusters there is a run, or was to be one.
	// +optional
	Clusters int32 `json:"clusters"`
	// prepared is how many runs have been prepared.
	// +optional
	Prepared int32 `json:"prepared"`
	// completed is how many runs were carried out in full, whatever their verdict: all their steps are done, without shortfalls.
	// +optional
	Completed int32 `json:"completed"`
	// failed is how many clusters could not be loaded in full.
	// +optional
	Failed int32 `json:"failed"`
	// invalid is how many runs have the verdict Invalid.
	// +optional
	Invalid int32 `json:"invalid"`
	// missed is how many clusters do not meet a threshold of scope EachCluster. Those whose run is Invalid do not count.
	// +optional
	Missed int32 `json:"missed,omitempty"`
	// progress is the sum of that of all runs. Its step is that of the slowest.
	// +optional
	Progress LoadProgress `json:"progress,omitzero"`
	// verdict is Failed if one cluster could not be loaded in full, or if one whose run is not Invalid does not meet a threshold of scope
	// EachCluster, or all of these together do not meet any threshold; else Invalid if one run is; else Passed. Empty before the end, and
	// without thresholds in a test that was carried out in full.
	// +optional
	Verdict LoadVerdict `json:"verdict,omitempty"`
	// partial says that measurements of a cluster are missing or not complete. The failures say of which.
	// +optional
	Partial bool `json:"partial,omitempty"`
	// thresholds are what happened to the load's, in the same order: over all clusters together but those whose run is Invalid, or over all
	// if each is, and how many clusters do not meet them for themselves.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Thresholds []LoadThresholdResult `json:"thresholds,omitempty"`
	// results are merged from the histograms of all runs: those with the most measurements first. A quantile of the merged histogram is
	// that of all measurements together.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +optional
	Results []LoadTestResult `json:"results,omitempty"`
	// failures are the clusters that could not be loaded in full, by name, 20 at most.
	// +listType=map
	// +listMapKey=cluster
	// +kubebuilder:validation:MaxItems=20
	// +optional
	Failures []ClusterFailure `json:"failures,omitempty"`
	// invalidRuns are the clusters whose run has the verdict Invalid, and why, by name, 20 at most.
	// +listType=map
	// +listMapKey=cluster
	// +kubebuilder:validation:MaxItems=20
	// +optional
	InvalidRuns []ClusterFailure `json:"invalidRuns,omitempty"`
	// unready are why pods were never Ready, in all clusters together, the most frequent reason first.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +optional
	Unready []LoadUnready `json:"unready,omitempty"`
	// conditions: Ready, which is True when the test is over, Reconciling and Stalled.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LoadTestResult is what was measured in all clusters.
type LoadTestResult struct {
	LoadLatency `json:",inline"`
	// worstCluster is the one with the highest p99.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	WorstCluster string `json:"worstCluster,omitempty"`
	// worstP99 is its p99.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,4}h)?([0-9]{1,2}m)?[0-9]{1,3}([.][0-9]{1,9})?(s|ms|µs|ns)$`
	// +optional
	WorstP99 metav1.Duration `json:"worstP99,omitzero"`
}

// LoadTestList is a list of load tests.
//
// +kubebuilder:object:root=true
type LoadTestList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// items is the list of load tests.
	Items []LoadTest `json:"items"`
}
