// Package plan decides what an agent does next for a Machine. It is pure: it reads no client and no clock.
package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

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

// Observation is what is known of a Machine that is not being deleted.
type Observation struct {
	Machine *v1alpha1.Machine
	// Frozen: nothing may be changed.
	Frozen bool
	// Terminal is nil when configuration and spec are fine.
	Terminal *Terminal
	// Instance is nil if there is none. InstanceKnown is false when that could not be told.
	Instance      *Instance
	InstanceKnown bool
	// MayRepair is false while the Machine's instance has failed too often in a short time.
	MayRepair bool
	// ProviderID is what the instance has or would have; empty if unknown.
	ProviderID string
	// Node is the Machine's own; nil if there is none. NodeKnown is false when that could not be told.
	Node      *corev1.Node
	NodeKnown bool
	// NodeDiffers: the Node is not in line with the Machine.
	NodeDiffers bool
	// ForeignNode is set if a Node of the Machine's name exists that is somebody else's.
	ForeignNode bool
}

// Action is one step.
type Action string

// The actions, in the order in which they are carried out.
const (
	AddFinalizer   Action = "AddFinalizer"
	CreateInstance Action = "CreateInstance"
	UpdateInstance Action = "UpdateInstance"
	// RemoveInstance takes away an instance that is over, so that it can be made anew.
	RemoveInstance Action = "RemoveInstance"
	SyncNode       Action = "SyncNode"
	SetProviderID  Action = "SetProviderID"
)

// Decide returns what to do now. What it leaves out is waiting for an event.
func Decide(o Observation) []Action {
	if o.Frozen {
		return nil
	}
	var actions []Action
	if step := instance(o); step != "" {
		if step == CreateInstance && !slices.Contains(o.Machine.Finalizers, v1alpha1.MachineFinalizer) {
			actions = append(actions, AddFinalizer)
		}
		actions = append(actions, step)
	}
	if o.Node == nil {
		return actions
	}
	if o.NodeDiffers && (o.Terminal == nil || !o.Terminal.Node) {
		actions = append(actions, SyncNode)
	}
	if o.Machine.Spec.ProviderID == nil && o.Node.Spec.ProviderID != "" && o.Node.Spec.ProviderID == o.ProviderID {
		actions = append(actions, SetProviderID)
	}
	return actions
}

func instance(o Observation) Action {
	switch {
	case !o.InstanceKnown || o.Terminal != nil:
		return ""
	case o.Instance == nil:
		return CreateInstance
	case o.Instance.State == Deleting:
		return ""
	case o.Instance.State == Failed && o.MayRepair:
		return RemoveInstance
	case o.Instance.State == Failed:
		return ""
	case !o.Instance.UpToDate:
		return UpdateInstance
	}
	return ""
}

// Lost tells whether a Machine has lost its instance: it has none, and once had one.
func Lost(o Observation) bool {
	return o.InstanceKnown && o.Instance == nil && o.Machine.Spec.ProviderID != nil
}
