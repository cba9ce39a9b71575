package plan

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Limits are the bounds of remediation, as numbers of Machines.
type Limits struct {
	MaxUnhealthy, MaxInFlight int
}

// LimitsOf resolves bounds for a number of replicas.
func LimitsOf(bounds v1alpha1.Remediation, replicas int) Limits {
	return Limits{
		MaxUnhealthy: resolve(bounds.MaxUnhealthy, intstr.FromString("40%"), replicas),
		MaxInFlight:  resolve(bounds.MaxInFlight, intstr.FromInt32(1), replicas),
	}
}

// resolve returns the number that value means, percentages rounded up. What admission would have refused counts
// as 0, the safe side.
func resolve(value *intstr.IntOrString, unset intstr.IntOrString, replicas int) int {
	if value == nil {
		value = &unset
	}
	number, err := intstr.GetScaledValueFromIntOrPercent(value, replicas, true)
	if err != nil {
		return 0
	}
	return max(number, 0)
}

// Unhealthy returns the Machines of the set that are unhealthy, by name. One that is deleted to be replaced counts
// until it is gone; one that is deleted for another reason is nobody's concern any more.
func Unhealthy(machines []Machine) []Machine {
	var unhealthy []Machine
	for _, machine := range machines {
		if machine.Owned && (machine.Remediated && machine.Deleting || machine.Unhealthy && !machine.Deleting) {
			unhealthy = append(unhealthy, machine)
		}
	}
	slices.SortFunc(unhealthy, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	return unhealthy
}

// replaceable returns the failed Machines to be replaced now. It is asked only when no Machine is missing and none
// is too many: while Machines cannot be created, none is deleted for another one's sake.
func replaceable(in Input, active []Machine) []Victim {
	limits := LimitsOf(in.Remediation, in.Replicas)
	if !in.Connected || len(Unhealthy(in.Machines)) > limits.MaxUnhealthy {
		return nil
	}
	inFlight := 0
	for _, machine := range in.Machines {
		if machine.Owned && (machine.Remediated && machine.Deleting || machine.Replacement && !machine.Deleting) {
			inFlight++
		}
	}
	var failed []Machine
	for _, machine := range active {
		if machine.Owned && machine.Failed && machine.Replaceable {
			failed = append(failed, machine)
		}
	}
	picked := victims(in, failed, max(limits.MaxInFlight-inFlight, 0))
	for i := range picked {
		picked[i].Why = picked[i].Reason
	}
	return picked
}
