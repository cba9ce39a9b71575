// What an agent does next for a Machine is decided in the files plan*.go, which are pure: they read no client and no clock.

package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// State is how far a Machine's instance is, with the words and the meaning of package driver.
type State string

// The states of an instance.
const (
	Pending  State = "Pending"
	Running  State = "Running"
	Failing  State = "Failing"
	Failed   State = "Failed"
	Deleting State = "Deleting"
)

// Instance is what a driver says about a Machine's instance.
type Instance struct {
	State    State
	Message  string
	UpToDate bool
	// Config is the hash of the KubeletConfiguration that it was made with; IgnoredFields are those of the one it is to have.
	Config        string
	IgnoredFields []string
}

// Terminal is a reason for which nothing can be made of a Machine until its user changes something.
type Terminal struct {
	// Reason is one of the Error constants of package v1alpha1.
	Reason string
	// Message names the field and the remedy.
	Message string
	// Node is set if what the Machine says about its Node cannot be used either.
	Node bool
}

// Unresolved is why it is not known what a Machine is to be: its MachineClass could not be read.
type Unresolved struct {
	// Reason is one of the reasons of package v1alpha1.
	Reason  string
	Message string
}

// Observation is what is known of a Machine that is not being deleted.
type Observation struct {
	Machine *v1alpha1.Machine
	// Frozen: nothing may be changed.
	Frozen bool
	// Terminal is nil when configuration and spec are fine.
	Terminal *Terminal
	// Unresolved is nil when driver, class and limits are known. If it is not, the instance is not known either.
	Unresolved *Unresolved
	// Provider is that of the driver; empty if it is not known.
	Provider string
	// Instance is nil if there is none. InstanceKnown is false when that could not be told.
	Instance      *Instance
	InstanceKnown bool
	// MayRepair is false while the Machine's instance has failed too often in a short time.
	MayRepair bool
	// ProviderID is what the driver says that the instance has or would have; empty if unknown.
	ProviderID string
	// Node is the Machine's own; nil if there is none. NodeKnown is false when that could not be told.
	Node      *corev1.Node
	NodeKnown bool
	// NodeDiffers: the Node is not in line with the Machine.
	NodeDiffers bool
	// NodeConflict says why the Node of the Machine's name is not the Machine's, and what to do; empty if there is no such
	// Node or if it is the Machine's own.
	NodeConflict string
	// Update is about an instance that is out of date.
	Update Update
	// Limits of the Machine and its class.
	Limits Limits
	// Elapsed is how much of them is used up.
	Elapsed Elapsed
}

// Elapsed are times that do not count while frozen.
type Elapsed struct {
	// Creation is since the Machine was made, or since its configuration was put right.
	Creation time.Duration
	// Unhealthy is since the condition Healthy is False, as the hub has it; Drain is since the drain of an update
	// in place started, or since the deletion.
	Unhealthy, Drain time.Duration
}

// Action is one step.
type Action string

// The actions, in the order in which they are carried out.
const (
	AddFinalizer   Action = "AddFinalizer"
	CreateInstance Action = "CreateInstance"
	// RemoveInstance takes away an instance that is over, so that it can be recreated.
	RemoveInstance Action = "RemoveInstance"
	SyncNode       Action = "SyncNode"
	SetProviderID  Action = "SetProviderID"
	UncordonNode   Action = "UncordonNode"
	CordonNode     Action = "CordonNode"
	// DrainNode is one round of a drain. While the drain is not over nothing that follows is done.
	DrainNode      Action = "DrainNode"
	UpdateInstance Action = "UpdateInstance"
)

// Decide returns what to do now. What it leaves out is waiting for an event.
func Decide(o Observation) []Action {
	if o.Frozen {
		return nil
	}
	var actions []Action
	if step := instanceAction(o); step != "" {
		if step == CreateInstance && !slices.Contains(o.Machine.Finalizers, v1alpha1.MachineFinalizer) {
			actions = append(actions, AddFinalizer)
		}
		actions = append(actions, step)
	}
	actions = append(actions, nodeActions(o)...)
	if OutOfDate(o) {
		actions = append(actions, updateActions(o)...)
	}
	return actions
}

// OutOfDate reports whether there is an instance to be updated.
func OutOfDate(o Observation) bool {
	return o.InstanceKnown && o.Terminal == nil && o.Instance != nil && !o.Instance.UpToDate &&
		o.Instance.State != Deleting && o.Instance.State != Failed
}

// nodeActions returns what there is to do to the Node. Without the driver's answer it is not proven that the Node is the
// Machine's.
func nodeActions(o Observation) []Action {
	if o.Node == nil || !o.InstanceKnown {
		return nil
	}
	var actions []Action
	if o.NodeDiffers && (o.Terminal == nil || !o.Terminal.Node) {
		actions = append(actions, SyncNode)
	}
	if o.Machine.Spec.ProviderID == nil && o.Node.Spec.ProviderID != "" && o.Node.Spec.ProviderID == o.ProviderID {
		actions = append(actions, SetProviderID)
	}
	if shouldUncordon(o) {
		actions = append(actions, UncordonNode)
	}
	return actions
}

func instanceAction(o Observation) Action {
	switch {
	case !o.InstanceKnown || o.Terminal != nil:
		return ""
	case o.Instance == nil && (!o.NodeKnown || o.NodeConflict != ""):
		// An instance would take over the identity of a Node of the same name.
		return ""
	case o.Instance == nil:
		return CreateInstance
	case o.Instance.State == Failed && o.MayRepair:
		return RemoveInstance
	}
	return ""
}

// PresetProviderID returns the error of a Machine whose spec.providerID is not what its driver gives, nil if it is.
// The field cannot be changed once it is set.
func PresetProviderID(o Observation) *Terminal {
	preset := o.Machine.Spec.ProviderID
	if preset == nil || !o.InstanceKnown || o.ProviderID == "" || *preset == o.ProviderID {
		return nil
	}
	return &Terminal{Reason: v1alpha1.ErrorInvalidConfiguration, Message: fmt.Sprintf(
		"spec.providerID: is %q, but the provider's ID of this Machine is %q: delete the Machine and create it without the field, which the agent sets",
		*preset, o.ProviderID)}
}

// Lost reports whether a Machine has lost its instance: it has none, and once had one.
func Lost(o Observation) bool {
	return o.InstanceKnown && o.Instance == nil && o.Machine.Spec.ProviderID != nil
}

// The timeouts of a Machine that neither it nor its class sets.
const (
	DefaultCreationTimeout = 20 * time.Minute
	DefaultHealthTimeout   = 10 * time.Minute
	DefaultDrainTimeout    = 2 * time.Hour
)

// Limits are what a Machine and its class say about its life.
type Limits struct {
	Creation, Health, Drain time.Duration
	// UnhealthyNodeConditions are types of Node conditions that must not be True.
	UnhealthyNodeConditions []string
	// SkipDrain: the Node goes with its pods.
	SkipDrain bool
}

// LimitsOf takes each limit from the Machine, else from its class, else from the defaults. class may be nil.
func LimitsOf(machine *v1alpha1.Machine, class *v1alpha1.MachineClass) Limits {
	var spec v1alpha1.MachineClassSpec
	if class != nil {
		spec = class.Spec
	}
	limits := Limits{
		Creation:                DefaultCreationTimeout,
		Health:                  DefaultHealthTimeout,
		Drain:                   DefaultDrainTimeout,
		UnhealthyNodeConditions: machine.Spec.UnhealthyNodeConditions,
		SkipDrain:               spec.DrainPolicy == v1alpha1.SkipDrain,
	}
	if len(limits.UnhealthyNodeConditions) == 0 {
		limits.UnhealthyNodeConditions = spec.UnhealthyNodeConditions
	}
	for _, timeouts := range []*v1alpha1.MachineTimeouts{spec.Timeouts, machine.Spec.Timeouts} {
		if timeouts == nil {
			continue
		}
		setLimit(&limits.Creation, timeouts.Creation)
		setLimit(&limits.Health, timeouts.Health)
		setLimit(&limits.Drain, timeouts.Drain)
	}
	return limits
}

func setLimit(limit *time.Duration, to *metav1.Duration) {
	if to != nil {
		*limit = to.Duration
	}
}

// Update is what is known about the update in place of an instance that is out of date.
type Update struct {
	// Unsupported says why the driver cannot update in place; empty if it can.
	Unsupported string
	// Waiting says what a Machine whose update has not started has to wait for; empty for nothing.
	Waiting string
	// Limited says what any update has to wait for after a freeze, started or not; empty for nothing.
	Limited string
	// Cordoned: the agent has cordoned the Node for the update.
	Cordoned bool
}

// Joined reports whether pods may run on the Machine's Node, so that an update has to drain it.
func Joined(o Observation) bool { return o.Node != nil && o.Machine.Spec.ProviderID != nil }

// IsUpdating reports whether an update in place has started and not come to its end.
func IsUpdating(o Observation) bool {
	updated := meta.FindStatusCondition(o.Machine.Status.Conditions, v1alpha1.MachineUpdatedCondition)
	return o.Update.Cordoned || updated != nil && slices.Contains(
		[]string{v1alpha1.ReasonDraining, v1alpha1.ReasonUpdating, v1alpha1.ReasonUpdateFailed}, updated.Reason)
}

// DrainingSince returns since when the drain of the update in place that is under way continues; zero if it has yet to
// start. What the conditions tell of an earlier drain gives no later one less time.
func DrainingSince(machine *v1alpha1.Machine) time.Time {
	drained := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineDrainedCondition)
	updated := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineUpdatedCondition)
	if drained == nil || updated == nil || drained.Status == metav1.ConditionTrue {
		return time.Time{}
	}
	timedOut := drained.Reason == v1alpha1.ReasonDrainTimedOut
	switch {
	case timedOut && drained.ObservedGeneration != machine.Generation:
		return time.Time{} // It was given up for a spec that has been replaced.
	case updated.Reason == v1alpha1.ReasonDraining, updated.Reason == v1alpha1.ReasonUpdateFailed && timedOut:
		return drained.LastTransitionTime.Time
	}
	return time.Time{}
}

// Ordered reports whether the Machine itself was changed since its instance was last seen to be up to date. If not,
// it is its class that was changed, or the agent.
func Ordered(machine *v1alpha1.Machine) bool {
	updated := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineUpdatedCondition)
	return updated != nil && machine.Generation > updated.ObservedGeneration
}

// updateActions returns the steps of an update in place. The drain may take many rounds: what comes after DrainNode is
// done only when the drain is over.
func updateActions(o Observation) []Action {
	switch {
	case !o.NodeKnown || o.NodeConflict != "" || o.Update.Unsupported != "":
		return nil
	case !Joined(o):
		return []Action{UpdateInstance}
	case o.Update.Limited != "":
		return nil
	case o.Update.Waiting != "" && !IsUpdating(o):
		return nil
	case o.Limits.SkipDrain:
		return []Action{UpdateInstance}
	case o.Node.Spec.Unschedulable:
		return []Action{DrainNode, UpdateInstance}
	}
	return []Action{CordonNode, DrainNode, UpdateInstance}
}

// shouldUncordon reports whether the agent takes back its cordon: the update is through, or will not happen.
func shouldUncordon(o Observation) bool {
	return o.Update.Cordoned && (Settled(o) || o.Terminal != nil || o.Update.Unsupported != "")
}

// BringsKubelet reports whether the Machine is about to get a kubelet that it has not run before. One that has lost its
// instance gets the kubelet back that it had, however far the API server has moved on since: no user is served by one
// Node less.
func BringsKubelet(o Observation) bool {
	switch ran := o.Machine.Status.Versions; {
	case !o.InstanceKnown:
		return false
	case o.Instance != nil:
		return !o.Instance.UpToDate
	default:
		return !Lost(o) || ran == nil || !sameVersion(o.Machine.Spec.Versions.Kubelet, ran.Kubelet)
	}
}

func sameVersion(a, b string) bool { return strings.TrimPrefix(a, "v") == strings.TrimPrefix(b, "v") }

// Skewed returns the terminal error of a Machine whose kubelet the API server of version server does not support;
// nil if all is fine, if it is unknown, or if the user allows it.
func Skewed(machine *v1alpha1.Machine, server string) *Terminal {
	problem := v1alpha1.UnsupportedKubelet(machine.Spec.Versions.Kubelet, server, machine.Annotations)
	if problem == "" {
		return nil
	}
	return &Terminal{
		Reason: v1alpha1.ErrorUnsupportedKubeletVersion,
		Message: fmt.Sprintf("spec.versions.kubelet: %s: use another version, or allow it with the annotation %s=true",
			problem, v1alpha1.AllowKubeletVersionSkewAnnotation),
	}
}
