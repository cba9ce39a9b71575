package machine

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Removal is what is known of a Machine whose deletion the hub has ordered.
type Removal struct {
	Machine *v1alpha1.Machine
	// Ending: there is no instance any more, or it is being removed. Nothing can be drained then.
	Ending    bool
	SkipDrain bool
}

// RemovalStep is a step of a deletion.
type RemovalStep string

// The steps of a deletion, in their order.
const (
	// AwaitHooks: an annotation holds the deletion.
	AwaitHooks RemovalStep = "AwaitHooks"
	// Drain: evict pods, and wait until they have ended.
	Drain RemovalStep = "Drain"
	// Remove instance, Node, certificate requests and finalizer.
	Remove RemovalStep = "Remove"
)

// BeforeDrain returns what comes first, and the hooks if those are waited for.
func BeforeDrain(r Removal) (RemovalStep, []string) {
	hooks := hooksOf(r.Machine, v1alpha1.PreDrainHookPrefix)
	switch {
	case Forced(r.Machine):
		return Remove, nil
	case len(hooks) > 0:
		return AwaitHooks, hooks
	case r.Ending || r.SkipDrain:
		return AfterDrain(r.Machine)
	}
	return Drain, nil
}

// AfterDrain returns what comes when there is nothing to drain, or the drain is over.
func AfterDrain(machine *v1alpha1.Machine) (RemovalStep, []string) {
	if hooks := hooksOf(machine, v1alpha1.PreTerminateHookPrefix); len(hooks) > 0 && !Forced(machine) {
		return AwaitHooks, hooks
	}
	return Remove, nil
}

// DeletionDrainSince returns since when the drain of a Machine that is being deleted continues, as its status tells; zero if
// that tells nothing, or of another drain only.
func DeletionDrainSince(machine *v1alpha1.Machine) time.Time {
	drained := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineDrainedCondition)
	if drained == nil || drained.Status == metav1.ConditionTrue || DrainsAnew(machine) {
		return time.Time{}
	}
	return drained.LastTransitionTime.Time
}

// DrainsAnew reports whether what the condition Drained says is of a drain before the current one. A deletion makes another
// generation of the Machine.
func DrainsAnew(machine *v1alpha1.Machine) bool {
	if machine.DeletionTimestamp.IsZero() {
		return DrainingSince(machine).IsZero()
	}
	drained := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineDrainedCondition)
	return drained != nil && drained.ObservedGeneration != machine.Generation
}

// Forced reports whether the user wants the Machine gone without drain and hooks.
func Forced(machine *v1alpha1.Machine) bool {
	return machine.Labels[v1alpha1.ForceDeletionLabel] == "true"
}

// hooksOf returns the hooks of machine below prefix, sorted.
func hooksOf(machine *v1alpha1.Machine, prefix string) []string {
	var hooks []string
	for key := range machine.Annotations {
		if strings.HasPrefix(key, prefix) {
			hooks = append(hooks, key)
		}
	}
	slices.Sort(hooks)
	return hooks
}
