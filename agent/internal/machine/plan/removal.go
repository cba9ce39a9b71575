package plan

import (
	"slices"
	"strings"

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
	// AwaitHooks: somebody holds the deletion with an annotation.
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

// Forced tells whether the user wants the Machine gone without drain and hooks.
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
