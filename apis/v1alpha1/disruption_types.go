package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
)

// Disruption is what goes wrong, on which Nodes, when, and what is expected of it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.expectations) || self.expectations.all(e, duration(e.within) <= duration(self.timing.duration) - (has(self.timing.healthyFor) ? duration(self.timing.healthyFor) : duration('0s')) - (has(self.timing.jitter) ? duration(self.timing.jitter) : duration('0s')))",message="expectations.within: it is longer than the run, which lasts timing.duration without healthyFor and jitter from its first fault on: shorten it, or set a longer duration"
type Disruption struct {
	// target says which Nodes are hit. They are chosen once, when the run starts. With a fault NeverJoin, Machines whose pods are
	// created within one of its windows are hit too, as mode and value say, counted together with those that were chosen before.
	// +kubebuilder:default={}
	// +optional
	Target DisruptionTarget `json:"target,omitzero"`

	// faults are what goes wrong on each of them, all at the same time.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +required
	Faults []disrupt.Fault `json:"faults"`

	// timing says when.
	// +required
	Timing DisruptionTiming `json:"timing"`

	// seed decides which Nodes are hit, the jitter, and which requests and pods a fault hits: the same for the same seed, as long as
	// no Nodes have come or gone. Default: 0 for what runs once. With a schedule each run has another seed, which follows from the
	// NodeDisruption's UID and the run's time and is in the run's spec; set a seed to hit the same Nodes in every run.
	// +optional
	Seed *int64 `json:"seed,omitempty"`

	// expectations are what must happen to each Node that is hit. They give the run a verdict. Default none.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Expectations []DisruptionExpectation `json:"expectations,omitempty"`
}

// DisruptionTarget chooses Nodes by their Machines. All that is set has to hold.
//
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || !(self.mode in ['Fixed', 'Percent']) || (has(self.value) && self.value > 0)",message="target.value: required for the modes Fixed and Percent, more than 0"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Percent' || !has(self.value) || self.value <= 100",message="target.value: must be a percentage from 1 to 100 for the mode Percent"
// +kubebuilder:validation:XValidation:rule="!has(self.value) || self.value == 0 || (has(self.mode) && self.mode in ['Fixed', 'Percent'])",message="target.value: has no meaning for the modes One and All: remove it, or set mode to Fixed or Percent"
type DisruptionTarget struct {
	// machineSelector chooses Machines by their labels. Default all Machines of the cluster.
	// +kubebuilder:validation:XValidation:rule="(!has(self.matchLabels) || self.matchLabels.size() <= 32) && (!has(self.matchExpressions) || self.matchExpressions.size() <= 32)",message="machineSelector: at most 32 labels and 32 expressions"
	// +optional
	MachineSelector *metav1.LabelSelector `json:"machineSelector,omitempty"`

	// machineDeployment is the name of the MachineDeployment whose Machines are chosen. Default any.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	MachineDeployment string `json:"machineDeployment,omitempty"`

	// zones are values of the label topology.kubernetes.io/zone of Nodes. Default any.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Zones []string `json:"zones,omitempty"`

	// exclude chooses, by their labels, Machines of the target that are not hit. They count for maxUnavailable. Default none.
	// +kubebuilder:validation:XValidation:rule="(!has(self.matchLabels) || self.matchLabels.size() <= 32) && (!has(self.matchExpressions) || self.matchExpressions.size() <= 32)",message="exclude: at most 32 labels and 32 expressions"
	// +optional
	Exclude *metav1.LabelSelector `json:"exclude,omitempty"`

	// mode says how many of the chosen are hit: One, All, as many as value says (Fixed), or value of 100, rounded down (Percent).
	// Default All.
	// +kubebuilder:default=All
	// +optional
	Mode disrupt.Mode `json:"mode,omitempty"`

	// value is the number of mode Fixed, or the percentage of mode Percent, 0 to 100.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Value int32 `json:"value,omitempty"`

	// maxUnavailable is how many of the chosen may be unavailable at once, as a number or a percentage that is rounded down, those
	// counted that are so without being hit. Default any.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 10000 : self.matches('^(100|[1-9]?[0-9])%$')",message="maxUnavailable: want a number from 0 to 10000, or a percentage from 0% to 100%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// DisruptionTiming is a series of windows in which the faults are there.
//
// +kubebuilder:validation:XValidation:rule="!has(self.repeat) || self.repeat <= 1 || (has(self.unhealthyFor) && duration(self.unhealthyFor) > duration('0s'))",message="timing.repeat: without unhealthyFor there is one window, which lasts until the end: set unhealthyFor, or remove repeat"
// +kubebuilder:validation:XValidation:rule="!(has(self.unhealthyFor) && duration(self.unhealthyFor) > duration('0s')) || (has(self.repeat) && self.repeat == 1) || (has(self.jitter) ? duration(self.jitter) : duration('0s')) <= (has(self.healthyFor) ? duration(self.healthyFor) : duration('0s'))",message="timing.jitter: it is more than healthyFor, so that windows could overlap: shorten it, or set repeat to 1"
// +kubebuilder:validation:XValidation:rule="!has(self.duration) || (has(self.healthyFor) ? duration(self.healthyFor) : duration('0s')) + (has(self.jitter) ? duration(self.jitter) : duration('0s')) < duration(self.duration)",message="timing.healthyFor: with jitter, the first window could begin after the end of the run: shorten them, or set a longer duration"
type DisruptionTiming struct {
	// startAfter is how long after its creation the run starts, at most 720h: what starts later than any run lasts is created later,
	// or has a schedule. Default 0s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="timing.startAfter: must be from 0s to 720h"
	// +optional
	StartAfter metav1.Duration `json:"startAfter,omitzero"`
	// duration is how long it lasts from then on, 1s to 720h. Then everything is restored, whether the agent and any API server
	// are there or not.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="timing.duration: must be from 1s to 720h"
	// +required
	Duration metav1.Duration `json:"duration"`
	// healthyFor is how long the Nodes are well before each window. Default 0s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="timing.healthyFor: must be from 0s to 720h"
	HealthyFor metav1.Duration `json:"healthyFor,omitzero"`
	// unhealthyFor is how long a window is, 1s at least. Default: one window until the end.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="timing.unhealthyFor: must be from 1s to 720h, or left out for one window until the end"
	UnhealthyFor metav1.Duration `json:"unhealthyFor,omitzero"`
	// jitter is up to how much later a window starts and ends, different for each window and Node. With more than one
	// window it is at most healthyFor. Default 0s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="timing.jitter: must be from 0s to 720h"
	Jitter metav1.Duration `json:"jitter,omitzero"`
	// repeat is how many windows there are. Default 0, which means as many as start before the end.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Repeat int32 `json:"repeat,omitempty"`
}

// DisruptionExpectationType is a kind of expectation.
//
// +kubebuilder:validation:Enum=Condition;Taint;PodsEvicted;MachineReplaced
type DisruptionExpectationType string

// The values of DisruptionExpectationType.
const (
	// ExpectCondition: the Node has a condition.
	ExpectCondition DisruptionExpectationType = "Condition"
	// ExpectTaint: the Node has a taint.
	ExpectTaint DisruptionExpectationType = "Taint"
	// ExpectPodsEvicted: all pods that were on the Node when the fault started are gone from it or are being deleted. Pods of
	// DaemonSets and static pods do not count, nor do Nodes without any other pod.
	ExpectPodsEvicted DisruptionExpectationType = "PodsEvicted"
	// ExpectMachineReplaced: the Machine is being deleted or gone, as remediation does.
	ExpectMachineReplaced DisruptionExpectationType = "MachineReplaced"
)

// DisruptionExpectation is what must happen to a Node in time.
//
// +kubebuilder:validation:XValidation:rule="has(self.condition) == (self.type == 'Condition') && has(self.taint) == (self.type == 'Taint')",message="expectations: the type Condition needs condition, the type Taint needs taint, and no other type has them"
type DisruptionExpectation struct {
	// type says what is expected: Condition, Taint, PodsEvicted or MachineReplaced.
	// +required
	Type DisruptionExpectationType `json:"type"`
	// condition that the Node has to have. For the type Condition.
	// +optional
	Condition *ExpectedCondition `json:"condition,omitempty"`
	// taint that the Node has to have. For the type Taint.
	// +optional
	Taint *ExpectedTaint `json:"taint,omitempty"`
	// within is how long it may take from the beginning of the fault on the Node, and ends before the run does. Time in which the
	// agent is frozen does not count. Conditions, taints and deletions of Machines count from the times that the objects have,
	// evictions from when the agent sees them, which looks every 5 seconds.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +required
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="expectations.within: must be more than 0s"
	Within metav1.Duration `json:"within"`
}

// ExpectedCondition is a condition of a Node.
type ExpectedCondition struct {
	// type of the condition, such as Ready or KernelDeadlock.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +required
	Type string `json:"type"`
	// status is True, False or Unknown. Default True.
	// +kubebuilder:validation:Enum="True";"False";Unknown
	// +kubebuilder:default="True"
	// +optional
	Status metav1.ConditionStatus `json:"status,omitempty"`
}

// ExpectedTaint is a taint of a Node.
type ExpectedTaint struct {
	// key of the taint, such as node.kubernetes.io/unreachable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +required
	Key string `json:"key"`
	// effect of the taint: NoSchedule, PreferNoSchedule or NoExecute. Default any.
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	// +optional
	Effect string `json:"effect,omitempty"`
}
