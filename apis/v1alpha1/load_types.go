package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Load is what is done to the API server of a cluster: objects of templates are made, changed, read and deleted in namespaces
// that the run makes for itself.
//
// +kubebuilder:validation:XValidation:rule="!has(self.steps) || self.steps.all(s, !has(s.phases) || s.phases.all(p, !has(p.template) || (has(self.templates) && self.templates.exists(t, t.name == p.template))))",message="steps: each template of a phase has to be the name of one of templates",fieldPath=".steps"
type Load struct {
	// namespaces is how many namespaces the run makes in the cluster, 1 to 100. Default 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	// +optional
	Namespaces int32 `json:"namespaces,omitempty"`

	// templates of the objects.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Templates []LoadTemplate `json:"templates,omitempty"`

	// steps are done one after the other.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +required
	Steps []LoadStep `json:"steps"`

	// timeout is how long all steps together may take, 1s to 24h. What is not done then is left out, and the run has failed.
	// Default 15m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout: must be from 1s to 24h"
	// +kubebuilder:default="15m"
	// +optional
	Timeout metav1.Duration `json:"timeout,omitzero"`

	// thresholds are the service level objectives. They give the run a verdict. Default none.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Thresholds []LoadThreshold `json:"thresholds,omitempty"`

	// abortOnBreach ends the run as soon as a threshold is crossed: one of a quantile with at least 100 measurements behind it.
	// Default false.
	// +optional
	AbortOnBreach bool `json:"abortOnBreach,omitempty"`

	// cleanupPolicy says what happens to what the run made. Default Delete.
	// +kubebuilder:default=Delete
	// +optional
	CleanupPolicy LoadCleanupPolicy `json:"cleanupPolicy,omitempty"`

	// seed decides random times between requests: the same for the same seed. Default 0.
	// +optional
	Seed int64 `json:"seed,omitempty"`
}

// LoadCleanupPolicy says what happens to what a run made.
//
// +kubebuilder:validation:Enum=Delete;DeleteOnSuccess;Keep
type LoadCleanupPolicy string

// The values of LoadCleanupPolicy.
const (
	// LoadCleanupDelete: it is deleted when the run is over, whatever happened to it.
	LoadCleanupDelete LoadCleanupPolicy = "Delete"
	// LoadCleanupDeleteOnSuccess: it is deleted when the run has completed with its thresholds met, and otherwise with the run.
	LoadCleanupDeleteOnSuccess LoadCleanupPolicy = "DeleteOnSuccess"
	// LoadCleanupKeep: it is deleted with the run.
	LoadCleanupKeep LoadCleanupPolicy = "Keep"
)

// LoadTemplate makes objects of a namespaced kind.
type LoadTemplate struct {
	// name by which phases call it. It starts the names of the objects.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// object is the manifest as YAML, in which {{.Name}} and {{.Namespace}} of the object are replaced, {{.Index}}, its number among
	// those of the template in its namespace from 0, {{.Iteration}} of the step, and {{.Run}}. Of Go's text/template there are also if
	// and else, and the functions eq, ne, lt, le, gt, ge, add, mod and div. Name and namespace are set in any case, and a label by which the
	// run finds its objects.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	// +required
	Object string `json:"object"`
}

// LoadStep is some phases that are done side by side.
type LoadStep struct {
	// name of the step.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// iterations is how many times the step is done, 1 to 1000. Default 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +optional
	Iterations int32 `json:"iterations,omitempty"`
	// phases of the step, 8 at most. The step is over when all of them are.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +required
	Phases []LoadPhase `json:"phases"`
}

// LoadAction is what a phase does.
//
// +kubebuilder:validation:Enum=Create;Patch;Get;List;Delete;Churn;Wait
type LoadAction string

// The values of LoadAction.
const (
	// LoadCreate makes objects of a template.
	LoadCreate LoadAction = "Create"
	// LoadPatch writes an annotation on objects of a template that the run has made.
	LoadPatch LoadAction = "Patch"
	// LoadGet reads objects of a template that the run has made, one by one.
	LoadGet LoadAction = "Get"
	// LoadList lists the objects of a template in one of the run's namespaces.
	LoadList LoadAction = "List"
	// LoadDelete deletes objects of a template that the run has made.
	LoadDelete LoadAction = "Delete"
	// LoadChurn deletes objects of a template that the run has made and makes as many new ones, for duration.
	LoadChurn LoadAction = "Churn"
	// LoadWait does nothing for duration.
	LoadWait LoadAction = "Wait"
)

// LoadPhase is one kind of request, made again and again.
//
// +kubebuilder:validation:XValidation:rule="(self.action == 'Wait') != has(self.template)",message="phases: every action but Wait needs a template, and Wait has none"
// +kubebuilder:validation:XValidation:rule="!(self.action in ['Wait', 'Churn', 'Get', 'List', 'Patch']) || has(self.duration)",message="phases: the actions Wait, Churn, Get, List and Patch need duration"
// +kubebuilder:validation:XValidation:rule="!(self.action in ['Create', 'Delete']) || !has(self.duration)",message="phases: the actions Create and Delete have no duration, but a number of replicas"
// +kubebuilder:validation:XValidation:rule="self.action != 'Create' || has(self.replicas)",message="phases: the action Create needs replicas"
// +kubebuilder:validation:XValidation:rule="(self.action == 'Churn') == has(self.churnPercent)",message="phases: the action Churn needs churnPercent, and no other has it"
type LoadPhase struct {
	// action is Create, Patch, Get, List, Delete, Churn or Wait.
	// +required
	Action LoadAction `json:"action"`
	// template is the name of the objects' template.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Template string `json:"template,omitempty"`
	// replicas is how many objects are made or deleted in each namespace in one iteration, 1 to 10000. For Delete the default is all
	// that there are.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// duration is how long the phase continues, at most 24h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('24h')",message="duration: must be more than 0s and at most 24h"
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
	// churnPercent is how many of the objects there are at a time are replaced in each round of Churn, 1 to 100, rounded up.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	ChurnPercent int32 `json:"churnPercent,omitempty"`
	// tuning says at which times requests are made. Default: Steady, 5 a second.
	// +kubebuilder:default={}
	// +optional
	Tuning LoadTuning `json:"tuning,omitzero"`
	// wait says what the phase waits for after its last request. For Churn: before each next round. Default None.
	// +kubebuilder:default=None
	// +optional
	Wait LoadWaitFor `json:"wait,omitempty"`
}

// LoadWaitFor says what a phase waits for.
//
// +kubebuilder:validation:Enum=None;Ready;Gone
type LoadWaitFor string

// The values of LoadWaitFor.
const (
	// LoadWaitNone: nothing.
	LoadWaitNone LoadWaitFor = "None"
	// LoadWaitReady: the objects of the template are ready. Pods are Ready or have succeeded, Deployments and StatefulSets are
	// rolled out, Jobs are complete; any other object is ready when it is there.
	LoadWaitReady LoadWaitFor = "Ready"
	// LoadWaitGone: the objects that were deleted are gone.
	LoadWaitGone LoadWaitFor = "Gone"
)

// LoadTuningType says how the times between requests are.
//
// +kubebuilder:validation:Enum=Steady;Random;Poisson;Ramp
type LoadTuningType string

// The values of LoadTuningType.
const (
	// LoadSteady: all the same.
	LoadSteady LoadTuningType = "Steady"
	// LoadRandom: from nothing to twice the mean, all equally likely.
	LoadRandom LoadTuningType = "Random"
	// LoadPoisson: exponentially distributed, as with requests that know nothing of each other.
	LoadPoisson LoadTuningType = "Poisson"
	// LoadRamp: the same, but the rate grows evenly from startQPS to qps while the phase's requests are made.
	LoadRamp LoadTuningType = "Ramp"
)

// LoadTuning says at which times requests are due. A request is made at its time whether earlier ones were answered or not, up to
// 100 at once. Its latency counts from when it was due, so that one that had to wait for others is not shorter by that. Phases of a
// step that are Steady or a Ramp each start at another part of the time between two requests, which the seed decides.
//
// +kubebuilder:validation:XValidation:rule="(has(self.type) && self.type == 'Ramp') == has(self.startQPS)",message="tuning: the type Ramp needs startQPS, and no other has it"
type LoadTuning struct {
	// type is Steady, Random, Poisson or Ramp. Default Steady.
	// +kubebuilder:default=Steady
	// +optional
	Type LoadTuningType `json:"type,omitempty"`
	// qps is how many requests are made in a second, 1 to 1000. Default 5.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=5
	// +optional
	QPS int32 `json:"qps,omitempty"`
	// burst is how many requests are made at once at each time, which are then so much further apart, 1 to 100. Default 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	// +optional
	Burst int32 `json:"burst,omitempty"`
	// startQPS is how many requests are made in the first second of a Ramp, 1 to 1000.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	StartQPS int32 `json:"startQPS,omitempty"`
}
