// Package tally counts Machines by state.
package tally

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// State is what counts of one Machine.
type State struct {
	// Ready: its Ready condition is True. A Machine whose agent fell silent keeps what was last known.
	Ready bool
	// Available: Ready for at least minReadySeconds, and not being deleted.
	Available bool
	// AvailableIn is the time until a Ready Machine becomes available; 0 if it is, or is not Ready.
	AvailableIn time.Duration
	Failed      bool
	Deleting    bool
	// Marked: a user or cluster-autoscaler wants this one to go first.
	Marked bool
}

// Of returns machine's state at now.
func Of(machine *v1alpha1.Machine, minReady time.Duration, now time.Time) State {
	state := State{
		Failed:   machine.Status.Phase == v1alpha1.MachineFailed,
		Deleting: machine.DeletionTimestamp != nil,
	}
	_, state.Marked = machine.Annotations[v1alpha1.DeleteMachineAnnotation]
	ready := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.ReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionTrue {
		return state
	}
	state.Ready = true
	if state.Deleting {
		return state
	}
	if wait := ready.LastTransitionTime.Add(minReady).Sub(now); minReady > 0 && wait > 0 {
		state.AvailableIn = wait
		return state
	}
	state.Available = true
	return state
}

// Counts are numbers of Machines.
type Counts struct {
	// Total counts all, those being deleted too.
	Total int
	// Active counts those which are not being deleted.
	Active    int
	Ready     int
	Available int
	Failed    int
	// MarkedAvailable counts available Machines that are marked to go first.
	MarkedAvailable int
	// NextAvailable is the time until the next Ready Machine becomes available; 0 if none waits.
	NextAvailable time.Duration
}

// Add counts one Machine.
func (c *Counts) Add(state State) {
	c.Total++
	count(&c.Active, !state.Deleting)
	count(&c.Ready, state.Ready)
	count(&c.Available, state.Available)
	count(&c.Failed, state.Failed)
	count(&c.MarkedAvailable, state.Available && state.Marked)
	if state.AvailableIn > 0 && (c.NextAvailable == 0 || state.AvailableIn < c.NextAvailable) {
		c.NextAvailable = state.AvailableIn
	}
}

func count(n *int, yes bool) {
	if yes {
		*n++
	}
}
