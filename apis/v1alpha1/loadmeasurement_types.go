package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LoadMeasurement is what is measured.
//
// +kubebuilder:validation:Enum=PodScheduled;PodInitialized;PodRunning;PodReady;PodReadyByObject;NodeReady;DeploymentRollout;APIRequest;APIRequestWait;APIRequestFailed;APIServerRequest;Errors
type LoadMeasurement string

// The values of LoadMeasurement.
const (
	// LoadPodScheduled, LoadPodInitialized, LoadPodRunning and LoadPodReady: from the time at which the API server made the pod,
	// as its answer arrived, to the one at which the agent's watch shows it assigned to a Node, with its init containers done, with
	// all containers running, and Ready. A pod that did not get that far counts as unfinished, with its age when it was deleted or the
	// steps ended.
	LoadPodScheduled   LoadMeasurement = "PodScheduled"
	LoadPodInitialized LoadMeasurement = "PodInitialized"
	LoadPodRunning     LoadMeasurement = "PodRunning"
	LoadPodReady       LoadMeasurement = "PodReady"
	// LoadPodReadyByObject: from metadata.creationTimestamp to the time of the condition Ready, in whole seconds, as they are in pods.
	LoadPodReadyByObject LoadMeasurement = "PodReadyByObject"
	// LoadNodeReady: from the time at which the watch shows a new Node, or one that has become not Ready, to Ready. Unfinished are
	// Nodes that are not Ready when the steps end.
	LoadNodeReady LoadMeasurement = "NodeReady"
	// LoadDeploymentRollout: from the answer to the creation of a Deployment until it is rolled out. Unfinished are Deployments that
	// were deleted before, or are not rolled out when the steps end.
	LoadDeploymentRollout LoadMeasurement = "DeploymentRollout"
	// LoadAPIRequest: from the time at which a request of the run was due to its answer, by verb and resource. If the request was sent
	// late, because earlier ones were not answered or the agent was slow, that counts too. Requests that failed are in APIRequestFailed.
	LoadAPIRequest LoadMeasurement = "APIRequest"
	// LoadAPIRequestWait: how long requests waited after they were due, because 100 requests of their phase were not answered. It is a
	// part of APIRequest. Requests that did not wait count as no time.
	LoadAPIRequestWait LoadMeasurement = "APIRequestWait"
	// LoadAPIRequestFailed: from the time at which a request of the run was due until it failed, by verb and resource. Their number is
	// limited by a threshold of Errors.
	LoadAPIRequestFailed LoadMeasurement = "APIRequestFailed"
	// LoadAPIServerRequest: what the API server itself has counted in apiserver_request_sli_duration_seconds during the run, of all
	// clients together, by verb, resource, group, subresource and scope. Its quantiles are upper bounds of buckets.
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

// LoadThresholdScope says where a threshold has to be met.
//
// +kubebuilder:validation:Enum=Fleet;EachCluster
type LoadThresholdScope string

// The values of LoadThresholdScope.
const (
	// LoadScopeFleet: over the measurements of all clusters together. Clusters that do not meet it are named, and the LoadTest may pass
	// nevertheless. In a LoadTestRun it is a threshold like any other.
	LoadScopeFleet LoadThresholdScope = "Fleet"
	// LoadScopeEachCluster: in each cluster for itself, and so over all of them together.
	LoadScopeEachCluster LoadThresholdScope = "EachCluster"
)

// LoadThreshold is a service level objective.
//
// +kubebuilder:validation:XValidation:rule="self.measurement != 'APIRequestFailed'",message="thresholds: APIRequestFailed has no limit of time: limit the number of failed requests by the measurement Errors"
// +kubebuilder:validation:XValidation:rule="self.measurement == 'APIServerRequest' || !has(self.requestScope)",message="thresholds: only APIServerRequest has a requestScope"
// +kubebuilder:validation:XValidation:rule="self.measurement == 'Errors' ? has(self.maxPercent) && !has(self.max) : has(self.max) && !has(self.maxPercent)",message="thresholds: the measurement Errors needs maxPercent, every other needs max"
// +kubebuilder:validation:XValidation:rule="self.measurement in ['APIRequest', 'APIServerRequest'] || (!has(self.verb) && !has(self.resource))",message="thresholds: only APIRequest and APIServerRequest have a verb and a resource"
type LoadThreshold struct {
	// measurement that is limited.
	// +required
	Measurement LoadMeasurement `json:"measurement"`
	// scope is Fleet or EachCluster. Default EachCluster.
	// +kubebuilder:default=EachCluster
	// +optional
	Scope LoadThresholdScope `json:"scope,omitempty"`
	// verb of requests, such as POST or LIST. Default: all together.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[A-Z]+$`
	// +optional
	Verb string `json:"verb,omitempty"`
	// resource of requests, such as pods, pods/binding or deployments.apps/scale. Without a group it is of any group, and without a
	// subresource it has none. Default: all together. Only requests of APIServerRequest are known by group and subresource.
	// +kubebuilder:validation:MaxLength=320
	// +optional
	Resource string `json:"resource,omitempty"`
	// requestScope of requests of APIServerRequest: resource, namespace or cluster. A LIST of one namespace has the scope namespace, and
	// one of all of them cluster. Default: all together.
	// +kubebuilder:validation:Enum=resource;namespace;cluster
	// +optional
	RequestScope string `json:"requestScope,omitempty"`
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
	// LoadPassed: all were met, in a run that was carried out in full. Requests may have failed as far as a threshold of Errors allows.
	LoadPassed LoadVerdict = "Passed"
	// LoadMissed: one was not met, or nothing was measured for it, or it is not known because too much was unfinished, or the run was
	// not carried out in full: its steps were broken off, or it has shortfalls.
	LoadMissed LoadVerdict = "Failed"
	// LoadInvalid: the simulator was the bottleneck, so that the measurements say nothing about the cluster. More than 5 % of the
	// Nodes, and at least two, had late heartbeats; or the kubelets of as many were late with their work queues; or those of more than 25 %
	// waited for a processor all the time; or more than 5 % of the requests were made more than a second late; or the agent stood still
	// for more than a second; or its watches were interrupted, or behind their objects while requests were answered in time; or a heartbeat,
	// a work queue or a request was late while the processors of the agent's machine were saturated for more than 90 % of at least 30 seconds.
	LoadInvalid LoadVerdict = "Invalid"
)

// LoadThresholdResult is what happened to a threshold.
type LoadThresholdResult struct {
	LoadThreshold `json:",inline"`
	// met says whether it was. False without any measurement, and if it depends on what was unfinished.
	// +required
	Met bool `json:"met"`
	// measured is the quantile that was measured. It is a lower bound if unfinished is not 0, and an upper bound for APIServerRequest.
	// Absent for Errors and without any measurement.
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
	// unfinished is how many of these had not ended, such as pods that were never Ready. They count as long as they had waited, and meet
	// no limit.
	// +optional
	Unfinished int64 `json:"unfinished,omitempty"`
	// missedClusters is how many clusters do not meet the threshold for themselves. Only in the status of a LoadTest; clusters whose
	// measurements are invalid do not count.
	// +optional
	MissedClusters int32 `json:"missedClusters,omitempty"`
	// missedIn are these clusters, by name, 20 at most.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	MissedIn []string `json:"missedIn,omitempty"`
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
	// resource of the requests, and for APIServerRequest with its group and subresource, such as deployments.apps/scale. Only for
	// requests.
	// +kubebuilder:validation:MaxLength=320
	// +optional
	Resource string `json:"resource,omitempty"`
	// requestScope is resource, namespace or cluster. Only for APIServerRequest.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	RequestScope string `json:"requestScope,omitempty"`
	// count is how many measurements there are.
	// +required
	Count int64 `json:"count"`
	// unfinished is how many of these had not ended, such as pods that were never Ready. They count as long as they had waited, so that
	// the times are lower bounds.
	// +optional
	Unfinished int64 `json:"unfinished,omitempty"`
	// bounds says that the times are the upper bounds of buckets: what was measured is at most as long. An hour stands for longer than the
	// longest bucket.
	// +optional
	Bounds bool `json:"bounds,omitempty"`
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

// LoadUnready counts pods that were never Ready, for one reason.
type LoadUnready struct {
	// reason in one word, such as Unschedulable, ImagePullBackOff or FailedMount.
	// +kubebuilder:validation:MaxLength=64
	// +required
	Reason string `json:"reason"`
	// count is how many pods there were.
	// +required
	Count int64 `json:"count"`
	// message of one of them.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Message string `json:"message,omitempty"`
}
