package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LoadMeasurement is what is measured.
//
// +kubebuilder:validation:Enum=PodScheduled;PodInitialized;PodRunning;PodReady;PodReadyByObject;NodeReady;DeploymentRollout;APIRequest;APIServerRequest;Errors
type LoadMeasurement string

// The values of LoadMeasurement.
const (
	// LoadPodScheduled, LoadPodInitialized, LoadPodRunning and LoadPodReady: from the time at which the API server made the pod,
	// as its answer arrived, to the one at which the agent's watch shows it assigned to a Node, with its init containers done, with
	// all containers running, and Ready.
	LoadPodScheduled   LoadMeasurement = "PodScheduled"
	LoadPodInitialized LoadMeasurement = "PodInitialized"
	LoadPodRunning     LoadMeasurement = "PodRunning"
	LoadPodReady       LoadMeasurement = "PodReady"
	// LoadPodReadyByObject: from metadata.creationTimestamp to the time of the condition Ready, in whole seconds, as they are in pods.
	LoadPodReadyByObject LoadMeasurement = "PodReadyByObject"
	// LoadNodeReady: from the time at which the watch shows a new Node, or one that has become not Ready, to Ready.
	LoadNodeReady LoadMeasurement = "NodeReady"
	// LoadDeploymentRollout: from the answer to the creation of a Deployment until it is rolled out.
	LoadDeploymentRollout LoadMeasurement = "DeploymentRollout"
	// LoadAPIRequest: from a request of the run to its answer, by verb and resource.
	LoadAPIRequest LoadMeasurement = "APIRequest"
	// LoadAPIServerRequest: what the API server itself has counted in apiserver_request_sli_duration_seconds during the run, by
	// verb and resource, requests of all clients together. Its buckets count as their upper bounds.
	LoadAPIServerRequest LoadMeasurement = "APIServerRequest"
	// LoadErrors: requests of the run that failed, of 100.
	LoadErrors LoadMeasurement = "Errors"
)

// LoadQuantile is which of the measured times a threshold is about.
//
// +kubebuilder:validation:Enum=P50;P90;P99;Max
type LoadQuantile string

// The values of LoadQuantile.
const (
	LoadP50 LoadQuantile = "P50"
	LoadP90 LoadQuantile = "P90"
	LoadP99 LoadQuantile = "P99"
	LoadMax LoadQuantile = "Max"
)

// LoadThreshold is a service level objective.
//
// +kubebuilder:validation:XValidation:rule="self.measurement == 'Errors' ? has(self.maxPercent) && !has(self.max) : has(self.max) && !has(self.maxPercent)",message="thresholds: the measurement Errors needs maxPercent, every other needs max"
// +kubebuilder:validation:XValidation:rule="self.measurement in ['APIRequest', 'APIServerRequest'] || (!has(self.verb) && !has(self.resource))",message="thresholds: only APIRequest and APIServerRequest have a verb and a resource"
type LoadThreshold struct {
	// measurement that is limited.
	// +required
	Measurement LoadMeasurement `json:"measurement"`
	// verb of requests, such as POST or LIST. Default: all together.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[A-Z]+$`
	// +optional
	Verb string `json:"verb,omitempty"`
	// resource of requests, such as pods. Default: all together.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Resource string `json:"resource,omitempty"`
	// quantile of the measured times. Default P99.
	// +kubebuilder:default=P99
	// +optional
	Quantile LoadQuantile `json:"quantile,omitempty"`
	// max is the longest time that meets the threshold.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +optional
	Max *metav1.Duration `json:"max,omitempty"`
	// maxPercent is how many of 100 requests may fail, 0 to 100.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxPercent *int32 `json:"maxPercent,omitempty"`
}

// LoadVerdict says whether the thresholds were met.
//
// +kubebuilder:validation:Enum=Passed;Failed;Invalid
type LoadVerdict string

// The values of LoadVerdict.
const (
	// LoadPassed: all were met, in a run that was carried out in full.
	LoadPassed LoadVerdict = "Passed"
	// LoadMissed: one was not met, or nothing was measured for it, or the run was not carried out in full.
	LoadMissed LoadVerdict = "Failed"
	// LoadInvalid: the simulator was the bottleneck, so that the measurements say nothing about the cluster. More than 5 % of the
	// Nodes, and at least two, had late heartbeats; or the kubelets of as many were late with their work queues; or those of more than 25 %
	// waited for a processor all the time; or more than 5 % of the requests were made more than a second late; or a heartbeat, a work queue
	// or a request was late while the processors of the agent's machine were saturated for more than 90 % of at least 30 seconds.
	LoadInvalid LoadVerdict = "Invalid"
)

// LoadThresholdResult is what became of a threshold.
type LoadThresholdResult struct {
	LoadThreshold `json:",inline"`
	// met says whether it was. False without any measurement.
	// +required
	Met bool `json:"met"`
	// measured is the quantile that was measured. Absent for Errors and without any measurement.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,4}h)?([0-9]{1,2}m)?[0-9]{1,3}([.][0-9]{1,9})?(s|ms|µs|ns)$`
	// +optional
	Measured *metav1.Duration `json:"measured,omitempty"`
	// measuredPercent is how many of 100 requests have failed, with two decimal places. Only for Errors.
	// +kubebuilder:validation:MaxLength=8
	// +optional
	MeasuredPercent string `json:"measuredPercent,omitempty"`
	// count is how many measurements there are.
	// +required
	Count int64 `json:"count"`
}

// LoadLatency is a summary of measured times.
type LoadLatency struct {
	// measurement that it is about.
	// +required
	Measurement LoadMeasurement `json:"measurement"`
	// verb of the requests. Only for requests.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Verb string `json:"verb,omitempty"`
	// resource of the requests. Only for requests.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Resource string `json:"resource,omitempty"`
	// count is how many measurements there are.
	// +required
	Count int64 `json:"count"`
	// p50, p90, p99 and max of the measured times.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,4}h)?([0-9]{1,2}m)?[0-9]{1,3}([.][0-9]{1,9})?(s|ms|µs|ns)$`
	// +required
	P50 metav1.Duration `json:"p50"`
	// p90 of the measured times.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,4}h)?([0-9]{1,2}m)?[0-9]{1,3}([.][0-9]{1,9})?(s|ms|µs|ns)$`
	// +required
	P90 metav1.Duration `json:"p90"`
	// p99 of the measured times.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,4}h)?([0-9]{1,2}m)?[0-9]{1,3}([.][0-9]{1,9})?(s|ms|µs|ns)$`
	// +required
	P99 metav1.Duration `json:"p99"`
	// max of the measured times.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,4}h)?([0-9]{1,2}m)?[0-9]{1,3}([.][0-9]{1,9})?(s|ms|µs|ns)$`
	// +required
	Max metav1.Duration `json:"max"`
}

// LoadError counts requests that failed for one reason.
type LoadError struct {
	// reason, such as Forbidden or Timeout.
	// +kubebuilder:validation:MaxLength=64
	// +required
	Reason string `json:"reason"`
	// verb and resource of the requests.
	// +kubebuilder:validation:MaxLength=160
	// +required
	Request string `json:"request"`
	// count is how many there were.
	// +required
	Count int64 `json:"count"`
	// message of the first of them.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Message string `json:"message,omitempty"`
}
