package machine

import (
	"fmt"
	"strings"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// BringsKubelet tells whether the Machine is about to get a kubelet that it has not run before. One that has lost its
// instance gets the kubelet back that it had, however far the API server has moved on since: no user is served by one
// Node less.
func BringsKubelet(o Observation) bool {
	switch ran := o.Machine.Status.Versions; {
	case !o.InstanceKnown:
		return false
	case o.Instance != nil:
		return !o.Instance.UpToDate
	default:
		return !Lost(o) || ran == nil || !sameVersion(o.Machine.Spec.Versions.Kubelet, ran.Kubelet)
	}
}

func sameVersion(a, b string) bool { return strings.TrimPrefix(a, "v") == strings.TrimPrefix(b, "v") }

// Skewed returns the terminal error of a Machine whose kubelet the API server of version server does not support;
// nil if all is fine, if it cannot be told, or if the user allows it.
func Skewed(machine *v1alpha1.Machine, server string) *Terminal {
	problem := v1alpha1.UnsupportedKubelet(machine.Spec.Versions.Kubelet, server, machine.Annotations)
	if problem == "" {
		return nil
	}
	return &Terminal{
		Reason: v1alpha1.ErrorUnsupportedKubeletVersion,
		Message: fmt.Sprintf("spec.versions.kubelet: %s: choose another, or allow it with the annotation %s=true",
			problem, v1alpha1.AllowKubeletVersionSkewAnnotation),
	}
}
