package plan

import (
	"slices"
	"strings"
)

// Unhealthy returns the Machines of the set that are unhealthy, by name. One that is deleted to be replaced counts
// until it is gone; one that is deleted for another reason needs no remediation any more.
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
	maxUnhealthy, maxInFlight := in.Remediation.Limits(in.Replicas)
	if !in.Connected || len(Unhealthy(in.Machines)) > maxUnhealthy {
		return nil
	}
	inFlight := in.Elsewhere
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
	picked := victims(in, failed, max(maxInFlight-inFlight, 0))
	for i := range picked {
		picked[i].Why = picked[i].Reason
	}
	return picked
}
