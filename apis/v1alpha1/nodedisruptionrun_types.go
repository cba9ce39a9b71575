package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeDisruptionRun lets Nodes of one cluster fail, once, as its spec says. The cluster's agent carries it out; deleting or pausing it
// restores the Nodes at once, and so does its end.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ndr,categories=fleet
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Verdict",type=string,JSONPath=`.status.verdict`
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.selected`
// +kubebuilder:printcolumn:name="Injected",type=integer,JSONPath=`.status.injected`
// +kubebuilder:printcolumn:name="Observed",type=integer,JSONPath=`.status.observed`
// +kubebuilder:printcolumn:name="Recovered",type=integer,JSONPath=`.status.recovered`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))",optionalOldSelf=true,reason=FieldValueRequired,fieldPath=".spec",message="is missing: write one, or delete the object"
type NodeDisruptionRun struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// DecodeError says why spec and status could not be decoded; then both are empty. It is not a field of the API.
	DecodeError string `json:"-"`

	// spec is written by the user. Only paused can be changed later.
	// +optional
	Spec NodeDisruptionRunSpec `json:"spec"`
	// status is written by the cluster's agent. Until it has looked, the phase is Pending.
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "The agent has not observed this run yet", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Reconciling", status: "True", reason: "Pending", message: "The agent has not observed this run yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	// +optional
	Status NodeDisruptionRunStatus `json:"status,omitzero"`
}

// NodeDisruptionRunSpec is what goes wrong, where and when. The cluster is that of the run's namespace.
type NodeDisruptionRunSpec struct {
	Disruption `json:",inline"`

	// paused restores the Nodes. A run that continues is where it would be without the pause. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// NodeDisruptionRunPhase says how far a run is.
//
// +kubebuilder:validation:Enum=Pending;Running;Paused;Completed;Failed
type NodeDisruptionRunPhase string

// The values of NodeDisruptionRunPhase.
const (
	// NodeDisruptionPending: it has not started.
	NodeDisruptionPending NodeDisruptionRunPhase = "Pending"
	// NodeDisruptionRunning: it is between its beginning and its end.
	NodeDisruptionRunning NodeDisruptionRunPhase = "Running"
	// NodeDisruptionPaused: a user has paused it, and the Nodes are restored.
	NodeDisruptionPaused NodeDisruptionRunPhase = "Paused"
	// NodeDisruptionCompleted: it is over.
	NodeDisruptionCompleted NodeDisruptionRunPhase = "Completed"
	// NodeDisruptionFailed: it cannot be carried out as its spec says; the message says why. Nothing was disrupted by it since.
	NodeDisruptionFailed NodeDisruptionRunPhase = "Failed"
)

// NodeDisruptionRunStatus is what the agent knows of a run.
type NodeDisruptionRunStatus struct {
	// phase says how far the run is: Pending, Running, Paused, Completed or Failed.
	// +optional
	Phase NodeDisruptionRunPhase `json:"phase,omitempty"`
	// startTime and endTime are when the run starts and ends. They are set once, before the first fault.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// endTime is when the run ends.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// candidates is how many Machines the Nodes were chosen from when the run started.
	// +optional
	Candidates int32 `json:"candidates,omitempty"`
	// selected is how many Nodes are hit. With NeverJoin it grows while Machines come.
	// +optional
	Selected int32 `json:"selected"`
	// injected is on how many of them a fault has started.
	// +optional
	Injected int32 `json:"injected"`
	// observed is on how many of them the cluster's API server has shown that something is wrong.
	// +optional
	Observed int32 `json:"observed"`
	// recovered is how many of those are healthy again.
	// +optional
	Recovered int32 `json:"recovered"`
	// nodes are the Nodes that are hit, by name, 500 at most; selected counts all of them. A run hits 500 Nodes at most.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=500
	// +optional
	Nodes []DisruptedNode `json:"nodes,omitempty"`
	// message says how the run is, and what a user can do.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
	// preview is which Nodes would be hit, as long as the run has not started.
	// +optional
	Preview *NodePreview `json:"preview,omitempty"`
	// expectations are how far each of the spec's is met, in the same order.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Expectations []ExpectationResult `json:"expectations,omitempty"`
	// verdict is Passed when every expectation was met on every Node that was hit, Failed as soon as one was missed, and Unknown when none
	// was missed and one is unknown: the run was paused meanwhile, or the agent was frozen. Empty before that, and without
	// expectations.
	// +optional
	Verdict DisruptionVerdict `json:"verdict,omitempty"`
	// conditions: Ready, which is True when the run is over, Reconciling and Stalled.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DisruptionVerdict says whether expectations were met.
//
// +kubebuilder:validation:Enum=Passed;Failed;Unknown
type DisruptionVerdict string

// The values of DisruptionVerdict.
const (
	// DisruptionPassed: every expectation was met.
	DisruptionPassed DisruptionVerdict = "Passed"
	// DisruptionMissed: one was not met in time.
	DisruptionMissed DisruptionVerdict = "Failed"
	// DisruptionUnknown: none is known to be missed, and one is unknown.
	DisruptionUnknown DisruptionVerdict = "Unknown"
)

// ExpectationResult counts the Nodes on which an expectation is met.
type ExpectationResult struct {
	// type is that of the expectation.
	// +required
	Type DisruptionExpectationType `json:"type"`
	// met is on how many Nodes it was met in time.
	// +required
	Met int32 `json:"met"`
	// missed is on how many it was not.
	// +required
	Missed int32 `json:"missed"`
	// pending is on how many it is not known yet.
	// +required
	Pending int32 `json:"pending"`
	// unknown is on how many the result is unknown, because the run was paused, or, when it is over, because the agent was frozen or did
	// not run.
	// +optional
	Unknown int32 `json:"unknown,omitempty"`
}

// DisruptedNode is what is known of one Node.
type DisruptedNode struct {
	// name of the Machine, which is that of its Node.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
	// arrivedAt is when the Machine's pod was about to be created, with the faults in it. Only set for Machines that came while
	// the run was in progress, which NeverJoin hits; absent for those that were chosen when it started.
	// +optional
	ArrivedAt *metav1.Time `json:"arrivedAt,omitempty"`
	// bootID of the Node when the run started. Another one shows that it was started again.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	BootID string `json:"bootID,omitempty"`
	// pods is how many pods could be evicted from it when its first fault had started. Only set when their eviction is expected.
	// +optional
	Pods *int32 `json:"pods,omitempty"`
	// met and missed are the expectations of the spec, by their numbers from 0, that were met or not.
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Met []int32 `json:"met,omitempty"`
	// missed are the expectations that were not met in time.
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Missed []int32 `json:"missed,omitempty"`
	// unknown are the expectations for which it is unknown whether they were met, because the run was paused meanwhile.
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Unknown []int32 `json:"unknown,omitempty"`
	// injectedAt is when its first fault has started.
	// +optional
	InjectedAt *metav1.Time `json:"injectedAt,omitempty"`
	// observedAt is when the API server first showed that something is wrong.
	// +optional
	ObservedAt *metav1.Time `json:"observedAt,omitempty"`
	// recoveredAt is when it showed that all is healthy again. Absent while it does not.
	// +optional
	RecoveredAt *metav1.Time `json:"recoveredAt,omitempty"`
	// message says why the Node could not be hit, or what happened to it.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Message string `json:"message,omitempty"`
}

// NodeDisruptionRunList is a list of runs.
//
// +kubebuilder:object:root=true
type NodeDisruptionRunList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// items is the list of runs.
	Items []NodeDisruptionRun `json:"items"`
}
