// What an agent does next for a Machine is decided in the files plan*.go, which are pure: they read no client and no clock.

package machine

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
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
