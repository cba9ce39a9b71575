package v1alpha1

import "k8s.io/apimachinery/pkg/util/intstr"

// Bounds resolves maxSurge and maxUnavailable for a number of replicas. Recreate and OnDelete have no surge and
// no bound on unavailable Machines; InPlace has no surge. Where both round to 0, maxUnavailable is 1: else nothing
// could ever be replaced.
func (s *MachineDeploymentStrategy) Bounds(replicas int) (surge, unavailable int) {
	switch s.Type {
	case Recreate, OnDelete:
		return 0, replicas
	case InPlace:
		unavailable = 1
		if s.InPlace != nil {
			unavailable = resolveValue(s.InPlace.MaxUnavailable, intstr.FromInt32(1), replicas, false)
		}
	default:
		surge = 1
		if s.RollingUpdate != nil {
			surge = resolveValue(s.RollingUpdate.MaxSurge, intstr.FromInt32(1), replicas, true)
			unavailable = resolveValue(s.RollingUpdate.MaxUnavailable, intstr.FromInt32(0), replicas, false)
		}
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, min(unavailable, replicas)
}

// SurgeGroup names the surge that the deployment shares with others; empty if it shares none.
func (s *MachineDeploymentStrategy) SurgeGroup() string {
	if s.Type != RollingUpdate || s.RollingUpdate == nil {
		return ""
	}
	return s.RollingUpdate.SurgeGroup
}

// Limits resolves maxUnhealthy and maxInFlight for a number of replicas.
func (r *Remediation) Limits(replicas int) (maxUnhealthy, maxInFlight int) {
	return resolveValue(r.MaxUnhealthy, intstr.FromString("40%"), replicas, true),
		resolveValue(r.MaxInFlight, intstr.FromInt32(1), replicas, true)
}

// resolveValue returns the number that value means, percentages of replicas rounded up or down. What admission would have
// refused counts as 0, the safe side.
func resolveValue(value *intstr.IntOrString, unset intstr.IntOrString, replicas int, up bool) int {
	if value == nil {
		value = &unset
	}
	number, err := intstr.GetScaledValueFromIntOrPercent(value, replicas, up)
	if err != nil {
		return 0
	}
	return max(number, 0)
}

// DesiredReplicas is what spec.replicas of a MachineSet or MachineDeployment asks for: 1 if it is nil, as the API server
// fills it in.
func DesiredReplicas(replicas *int32) int {
	if replicas == nil {
		return 1
	}
	return int(*replicas)
}
