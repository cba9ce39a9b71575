package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LoadTestRun puts a load on one cluster, once. The cluster's agent carries it out, measures, and removes what it made.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ltr,categories=fleet
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Verdict",type=string,JSONPath=`.status.verdict`
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.progress.step`
// +kubebuilder:printcolumn:name="Requests",type=integer,JSONPath=`.status.progress.requests`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.progress.failed`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))",optionalOldSelf=true,reason=FieldValueRequired,fieldPath=".spec",message="is missing: write one, or delete the object"
type LoadTestRun struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// DecodeError says why spec and status could not be decoded; then both are empty. It is not a field of the API.
	DecodeError string `json:"-"`

	// spec is written by the user, or by the hub for a LoadTest. Only startTime, once, and stopped can be changed later.
	// +optional
	Spec LoadTestRunSpec `json:"spec"`
	// status is written by the cluster's agent. Until it has looked, the phase is Pending.
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "The agent has not observed this run yet", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Reconciling", status: "True", reason: "Pending", message: "The agent has not observed this run yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	// +optional
	Status LoadTestRunStatus `json:"status,omitzero"`
}

// LoadTestRunSpec is the load and when it starts. The cluster is that of the run's namespace.
//
// +kubebuilder:validation:XValidation:rule="self.withStartTime || !has(self.startTime)",message="spec.startTime: only with withStartTime"
type LoadTestRunSpec struct {
	Load `json:",inline"`

	// withStartTime keeps a run that is prepared from beginning before startTime is set. Default false: it starts at once.
	// +kubebuilder:default=false
	// +optional
	WithStartTime bool `json:"withStartTime"`
	// startTime is when the run starts. The hub sets it once the runs of all clusters are prepared, so that they start together.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// stopped ends the run. What was measured is kept, what was made is removed as cleanupPolicy says. Default false.
	// +optional
	Stopped bool `json:"stopped,omitempty"`
}

// LoadTestRunPhase says how far a run is.
//
// +kubebuilder:validation:Enum=Pending;Preparing;Prepared;Running;CleaningUp;Completed;Failed
type LoadTestRunPhase string

// The values of LoadTestRunPhase.
const (
	// LoadTestRunPhasePending: the agent has not started with it, or another run is in progress in the cluster.
	LoadTestRunPhasePending LoadTestRunPhase = "Pending"
	// LoadTestRunPhasePreparing: checking the templates with the API server, and the namespaces are made.
	LoadTestRunPhasePreparing LoadTestRunPhase = "Preparing"
	// LoadTestRunPhasePrepared: it waits for its startTime.
	LoadTestRunPhasePrepared LoadTestRunPhase = "Prepared"
	// LoadTestRunPhaseRunning: steps are being done.
	LoadTestRunPhaseRunning LoadTestRunPhase = "Running"
	// LoadTestRunPhaseCleaningUp: the steps are over, measurements and verdict are there, and what the run made is being removed.
	LoadTestRunPhaseCleaningUp LoadTestRunPhase = "CleaningUp"
	// LoadTestRunPhaseCompleted: all steps were done, and what was to be removed is gone. The verdict says whether thresholds were met.
	LoadTestRunPhaseCompleted LoadTestRunPhase = "Completed"
	// LoadTestRunPhaseFailed: it was not carried out in full; the message says why. What was to be removed is gone.
	LoadTestRunPhaseFailed LoadTestRunPhase = "Failed"
)

// LoadTestRunStatus is what the agent knows of a run.
type LoadTestRunStatus struct {
	// phase says how far the run is: Pending, Preparing, Prepared, Running, CleaningUp, Completed or Failed.
	// +optional
	Phase LoadTestRunPhase `json:"phase,omitempty"`
	// message says how the run is, and what a user can do.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
	// attempts is how often an agent has started to prepare the run. One whose agent has ended twice before the run was prepared has
	// failed. An agent that is restarted while the run is Prepared prepares it again, and that does not count.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// startTime is when the first step started.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// endTime is when the last step ended, or the run was broken off.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// failure says why the run was not carried out in full. Empty as long as it was.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Failure string `json:"failure,omitempty"`
	// shortfalls say what of the load was not done although all steps are over: requests that failed and no threshold of Errors allows,
	// requests that had no object, pods that were never Ready where no threshold limits PodReady, or no request at all. With any the
	// verdict is Failed, or Invalid.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=512
	// +optional
	Shortfalls []string `json:"shortfalls,omitempty"`
	// verdict is Passed, Failed or Invalid once the steps are over. Empty without thresholds in a run that was carried out in full,
	// unless it is Invalid.
	// +optional
	Verdict LoadVerdict `json:"verdict,omitempty"`
	// invalid says why the measurements say nothing about the cluster.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=512
	// +optional
	Invalid []string `json:"invalid,omitempty"`
	// notes say what could not be measured, and why.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=512
	// +optional
	Notes []string `json:"notes,omitempty"`
	// progress is how far it is. Written every few seconds.
	// +optional
	Progress LoadProgress `json:"progress,omitzero"`
	// thresholds are what happened to the spec's, in the same order.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Thresholds []LoadThresholdResult `json:"thresholds,omitempty"`
	// histograms have all that was measured, those with the most measurements first. Written every half minute and at the end.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +optional
	Histograms []LoadHistogram `json:"histograms,omitempty"`
	// series are measurements over time.
	// +listType=map
	// +listMapKey=measurement
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Series []LoadSeries `json:"series,omitempty"`
	// errors are why requests failed, the most frequent first.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +optional
	Errors []LoadError `json:"errors,omitempty"`
	// unready are why pods were never Ready, the most frequent reason first: those that were deleted before, and those that are not
	// Ready when the steps end.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +optional
	Unready []LoadUnready `json:"unready,omitempty"`
	// environment is what the run was made on: versions, Nodes and the agent's machine. Written when the steps start.
	// +optional
	Environment *LoadEnvironment `json:"environment,omitempty"`
	// simulator is how the simulator itself was during the run.
	// +optional
	Simulator *LoadSimulator `json:"simulator,omitempty"`
	// conditions: Ready, which is True when the run is over, Reconciling and Stalled.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LoadProgress is how far a run is.
type LoadProgress struct {
	// step that is being done, with its iteration if it has several, such as "create (2/5)".
	// +kubebuilder:validation:MaxLength=80
	// +optional
	Step string `json:"step,omitempty"`
	// steps is how many steps are done, their iterations counted, and stepsTotal how many there are.
	// +optional
	Steps int32 `json:"steps"`
	// stepsTotal is how many steps there are, their iterations counted.
	// +optional
	StepsTotal int32 `json:"stepsTotal"`
	// requests of the run that were answered, and failed those of them that were refused or not answered.
	// +optional
	Requests int64 `json:"requests"`
	// failed is how many of the requests failed.
	// +optional
	Failed int64 `json:"failed"`
	// throttled is how many requests the API server has answered with 429. They were made again, and count once.
	// +optional
	Throttled int64 `json:"throttled"`
	// delayed is how many requests were sent after they were due, because 100 requests of their phase were not answered.
	// +optional
	Delayed int64 `json:"delayed,omitempty"`
	// skipped is how many requests were due and not made, because there was no object for them.
	// +optional
	Skipped int64 `json:"skipped,omitempty"`
	// podsCreated is how many pods of the run there have been, those of its Deployments and the like counted too.
	// +optional
	PodsCreated int64 `json:"podsCreated"`
	// podsReady is how many of them have been Ready.
	// +optional
	PodsReady int64 `json:"podsReady"`
}

// LoadHistogram has measured times in a form that can be merged.
type LoadHistogram struct {
	LoadLatency `json:",inline"`
	// data is an HdrHistogram of microseconds from 1 to 3,600,000,000 with 3 significant digits, in its compressed encoding,
	// version 2. What had not ended is not in it.
	// +kubebuilder:validation:MaxLength=20000
	// +required
	Data []byte `json:"data"`
	// unfinishedData is that of how long what had not ended had waited, in the same encoding. Absent if all had ended.
	// +kubebuilder:validation:MaxLength=20000
	// +optional
	UnfinishedData []byte `json:"unfinishedData,omitempty"`
}

// LoadSeries is a measurement over time.
type LoadSeries struct {
	// measurement that it is about.
	// +required
	Measurement LoadMeasurement `json:"measurement"`
	// points of time, at least 5 seconds from each other and more in a long run, 120 at most.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=120
	// +optional
	Points []LoadPoint `json:"points,omitempty"`
}

// LoadPoint is what was measured between a point of time and the next.
type LoadPoint struct {
	// seconds since the run's startTime.
	// +required
	Seconds int32 `json:"seconds"`
	// count of measurements.
	// +required
	Count int64 `json:"count"`
	// p50 of the measured times.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,4}h)?([0-9]{1,2}m)?[0-9]{1,3}([.][0-9]{1,9})?(s|ms|µs|ns)$`
	// +required
	P50 metav1.Duration `json:"p50"`
	// p99 of the measured times.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,4}h)?([0-9]{1,2}m)?[0-9]{1,3}([.][0-9]{1,9})?(s|ms|µs|ns)$`
	// +required
	P99 metav1.Duration `json:"p99"`
}

// LoadSimulator is how the simulator itself was during a run.
type LoadSimulator struct {
	// nodes is how many Nodes have sent heartbeats. Nodes that a disruption was on do not count, here and below.
	// +optional
	Nodes int32 `json:"nodes"`
	// lateHeartbeats is how many of these had a Lease that was more than 20 seconds old at some time.
	// +optional
	LateHeartbeats int32 `json:"lateHeartbeats"`
	// lateKubelets is how many Nodes had the condition KubeletLate at some time: pods that were due waited for more than five seconds
	// in the work queue of the hollow kubelet, or it waited for a processor all the time, or was stopped for most of it.
	// +optional
	LateKubelets int32 `json:"lateKubelets"`
	// lateRequests is how many requests the agent itself made more than a second after their time.
	// +optional
	LateRequests int64 `json:"lateRequests"`
	// cpuBusyPercent is how busy the processors of the agent's machine were on average.
	// +optional
	CPUBusyPercent int32 `json:"cpuBusyPercent"`
	// cpuSaturatedPercent is the part of the time in which they were busy for more than 98 of 100.
	// +optional
	CPUSaturatedPercent int32 `json:"cpuSaturatedPercent"`
	// agentCPUMilliseconds is the processor time that the agent has used.
	// +optional
	AgentCPUMilliseconds int64 `json:"agentCPUMilliseconds"`
	// stalls is how many times the agent stood still for more than a second, as when it was stopped or got no processor. What was measured
	// meanwhile is not true, so that any makes the run Invalid.
	// +optional
	Stalls int32 `json:"stalls,omitempty"`
	// longestStall is the longest of them, to a millisecond.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,4}h)?([0-9]{1,2}m)?[0-9]{1,3}([.][0-9]{1,9})?(s|ms|µs|ns)$`
	// +optional
	LongestStall metav1.Duration `json:"longestStall,omitzero"`
	// watchInterruptions is how many times a watch of the agent was interrupted for more than a second, or had to list its objects again.
	// What happened meanwhile has wrong times, so that any makes the run Invalid.
	// +optional
	WatchInterruptions int32 `json:"watchInterruptions,omitempty"`
	// longestWatchLag is the longest time, to a millisecond, that a watch showed a new pod late, corrected for the clocks' difference.
	// Creation times are whole seconds, so that up to 2 seconds is no lag. Absent without any.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,4}h)?([0-9]{1,2}m)?[0-9]{1,3}([.][0-9]{1,9})?(s|ms|µs|ns)$`
	// +optional
	LongestWatchLag metav1.Duration `json:"longestWatchLag,omitzero"`
	// doubts say what makes it possible that the simulator was the bottleneck, although the run is not Invalid, such as processors that
	// were always busy. Without any, and in a valid run, it was not.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=512
	// +optional
	Doubts []string `json:"doubts,omitempty"`
}

// LoadTestRunList is a list of runs.
//
// +kubebuilder:object:root=true
type LoadTestRunList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// items is the list of runs.
	Items []LoadTestRun `json:"items"`
}
