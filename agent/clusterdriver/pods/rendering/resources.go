package rendering

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Requests are what each takes at rest, so that a Node has room for as many as it can run.
var (
	controlPlaneRequests = newRequests("40m", "320Mi")
	agentRequests        = newRequests("10m", "64Mi")
)

func newRequests(cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}
}

// ControlPlaneResources are those of the control plane's container. A request that is left out is what it takes at rest, but no more than its
// limit: the API server takes no other.
func (c Cluster) ControlPlaneResources() corev1.ResourceRequirements {
	resources := corev1.ResourceRequirements{Requests: corev1.ResourceList{}}
	for name, byDefault := range controlPlaneRequests.Requests {
		request, isAsked := c.Resources.Requests[name]
		limit, isLimited := c.Resources.Limits[name]
		switch {
		case isAsked:
		case isLimited && limit.Cmp(byDefault) < 0:
			request = limit
		default:
			request = byDefault
		}
		resources.Requests[name] = request
	}
	if len(c.Resources.Limits) > 0 {
		resources.Limits = c.Resources.Limits.DeepCopy()
	}
	return resources
}

// Excess is a resource of which the pod of a cluster takes more than the quota of its namespace leaves to any.
type Excess struct {
	// Name is that of the resource in the quota, such as requests.memory, and Field that of the SimulatedCluster.
	Name  corev1.ResourceName
	Field string
	// Needs is what the pod takes, and Has what the quota allows.
	Needs, Has resource.Quantity
}

// FindExcess returns the first resource of which the quota has too little for the pod; nil if there is none.
func (s Settings) FindExcess(c Cluster) *Excess {
	plane := c.ControlPlaneResources()
	for _, each := range []struct {
		names    []corev1.ResourceName
		field    string
		resource corev1.ResourceName
		of       corev1.ResourceList
		more     corev1.ResourceList
	}{
		{[]corev1.ResourceName{corev1.ResourceRequestsMemory, corev1.ResourceMemory}, "requests.memory", corev1.ResourceMemory, plane.Requests, agentRequests.Requests},
		{[]corev1.ResourceName{corev1.ResourceRequestsCPU, corev1.ResourceCPU}, "requests.cpu", corev1.ResourceCPU, plane.Requests, agentRequests.Requests},
		{[]corev1.ResourceName{corev1.ResourceLimitsMemory}, "limits.memory", corev1.ResourceMemory, plane.Limits, nil},
		{[]corev1.ResourceName{corev1.ResourceLimitsCPU}, "limits.cpu", corev1.ResourceCPU, plane.Limits, nil},
	} {
		needs := each.of[each.resource]
		needs.Add(each.more[each.resource])
		for _, name := range each.names {
			if has, isBounded := s.Quota[name]; isBounded && needs.Cmp(has) > 0 {
				return &Excess{Name: name, Field: each.field, Needs: needs, Has: has}
			}
		}
	}
	return nil
}
