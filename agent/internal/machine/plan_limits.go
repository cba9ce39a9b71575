package machine

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

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
		set(&limits.Creation, timeouts.Creation)
		set(&limits.Health, timeouts.Health)
		set(&limits.Drain, timeouts.Drain)
	}
	return limits
}

func set(limit *time.Duration, to *metav1.Duration) {
	if to != nil {
		*limit = to.Duration
	}
}
