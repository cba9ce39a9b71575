// Package machines has what the hub knows of Machines: it counts them by state, computes from the counts the conditions Ready,
// Reconciling and Stalled of MachineSets and MachineDeployments, and marks Machines as Stale of which nothing new is known.
package machines

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// State is what counts of one Machine.
type State struct {
	// Ready: its Ready condition is True. A Machine whose agent fell silent keeps what was last known.
	Ready bool
	// Available: Ready for at least minReadySeconds by the clock, with the kubelet that was asked for, and not being deleted.
	Available bool
	// AvailableIn is the time until a Ready Machine becomes available; 0 if it is, or is not Ready.
	AvailableIn time.Duration
	Failed      bool
	Deleting    bool
	// Marked: a user or cluster-autoscaler wants this one to go first.
	Marked bool
	// Priority says when its turn is in a scale-down, lower ones first.
	Priority int
	// Update is where an update in place stands that is not over: ReasonInPlaceUnsupported, ReasonUpdateFailed,
	// or ReasonAwaitingUpdate for all that may still end well. Empty otherwise.
	Update string
	// Requested: a user wants this one to be updated in place.
	Requested bool
}

// Clock tells how much of the time since then counts as Ready. A time.Time counts all of it, a freeze.Clock what was not
// frozen.
type Clock interface {
	Sub(since time.Time) time.Duration
}

// Of returns machine's state by clock.
func Of(machine *v1alpha1.Machine, minReady time.Duration, clock Clock) State {
	state := State{
		Failed:    machine.Status.Phase == v1alpha1.MachineFailed,
		Deleting:  machine.DeletionTimestamp != nil,
		Priority:  Priority(machine.Annotations),
		Requested: machine.Labels[v1alpha1.UpdateInPlaceLabel] == "true",
	}
	_, state.Marked = machine.Annotations[v1alpha1.DeleteMachineAnnotation]
	var since time.Time
	state.Update, since = updateState(machine)
	ready := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.ReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionTrue {
		return state
	}
	state.Ready = true
	if state.Deleting || state.Update != "" || OtherKubelet(machine) != "" {
		return state
	}
	if ready.LastTransitionTime.After(since) {
		since = ready.LastTransitionTime.Time
	}
	if minReady > 0 {
		state.AvailableIn = max(minReady-clock.Sub(since), 0)
	}
	state.Available = state.AvailableIn == 0
	return state
}

// OtherKubelet is the version that the Node reports, if it is another than the Machine asks for; empty if it is that, or one of
// the two is not known.
func OtherKubelet(machine *v1alpha1.Machine) string {
	want := machine.Spec.Versions.Kubelet
	if want == "" || machine.Status.Versions == nil {
		return ""
	}
	has := machine.Status.Versions.Kubelet
	if strings.TrimPrefix(has, "v") == strings.TrimPrefix(want, "v") {
		return ""
	}
	return has
}

// updateState says where the update in place of machine stands, and since when it is over. Only what the agent says
// of the current spec counts: a Machine that has just been moved to another template is not up to date,
// whatever its conditions said of the one before.
func updateState(machine *v1alpha1.Machine) (stands string, since time.Time) {
	if _, moved := machine.Annotations[v1alpha1.InPlaceUpdateAnnotation]; !moved {
		return "", time.Time{}
	}
	updated := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineUpdatedCondition)
	switch {
	case updated == nil || updated.ObservedGeneration < machine.Generation:
		return v1alpha1.ReasonAwaitingUpdate, time.Time{}
	case updated.Status == metav1.ConditionTrue:
		return "", updated.LastTransitionTime.Time
	case updated.Status == metav1.ConditionFalse &&
		(updated.Reason == v1alpha1.ReasonInPlaceUnsupported || updated.Reason == v1alpha1.ReasonUpdateFailed):
		return updated.Reason, time.Time{}
	}
	return v1alpha1.ReasonAwaitingUpdate, time.Time{}
}

// Priority is the deletion priority of a Machine with annotations; one that is not a number counts as the default.
func Priority(annotations map[string]string) int {
	number, err := strconv.Atoi(annotations[v1alpha1.DeletionPriorityAnnotation])
	if err != nil {
		return v1alpha1.DefaultDeletionPriority
	}
	return number
}

// Counts are numbers of Machines.
type Counts struct {
	// Total counts all, those being deleted too.
	Total int
	// Active counts those which are not being deleted.
	Active int
	// Ready and Available ones are not being deleted.
	Ready     int
	Available int
	Failed    int
	// MarkedAvailable counts available Machines that are marked to go first.
	MarkedAvailable int
	// Updating counts Machines, not being deleted, whose update in place is not over.
	Updating int
	// NextAvailable is the time until the next Ready Machine becomes available; 0 if none waits.
	NextAvailable time.Duration
}

// Terminating is the number of Machines that are being deleted.
func (c *Counts) Terminating() int { return c.Total - c.Active }

// Add counts one Machine.
func (c *Counts) Add(state State) {
	c.Total++
	countIf(&c.Active, !state.Deleting)
	countIf(&c.Ready, state.Ready && !state.Deleting)
	countIf(&c.Available, state.Available)
	countIf(&c.Failed, state.Failed)
	countIf(&c.MarkedAvailable, state.Available && state.Marked)
	countIf(&c.Updating, state.Update != "" && !state.Deleting)
	if state.AvailableIn > 0 && (c.NextAvailable == 0 || state.AvailableIn < c.NextAvailable) {
		c.NextAvailable = state.AvailableIn
	}
}

func countIf(n *int, yes bool) {
	if yes {
		*n++
	}
}

// Changed lets changes of a Machine pass that can change a count or an owner, and no other changes of it.
func Changed() predicate.Predicate {
	return reconciler.Changed(func(machine *v1alpha1.Machine) any {
		ready := time.Time{}
		if condition := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.ReadyCondition); condition != nil {
			ready = condition.LastTransitionTime.Time
		}
		config := ""
		if source := machine.Status.ConfigSource; source != nil {
			config = source.Error
		}
		return []any{Of(machine, 0, time.Time{}), ready, config, machine.OwnerReferences, machine.Labels}
	})
}
