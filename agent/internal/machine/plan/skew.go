package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// maxSkew is how many minor versions a kubelet may be older than its API server.
// https://kubernetes.io/releases/version-skew-policy/#kubelet
const maxSkew = 3

// Skewed returns the terminal error of a Machine whose kubelet the API server of version server does not support;
// nil if all is fine, if it cannot be told, or if the user allows it.
func Skewed(machine *v1alpha1.Machine, server string) *Terminal {
	if machine.Annotations[v1alpha1.AllowKubeletVersionSkewAnnotation] == "true" {
		return nil
	}
	kubelet, err := version.ParseGeneric(machine.Spec.Versions.Kubelet)
	if err != nil {
		return nil
	}
	api, err := version.ParseGeneric(server)
	if err != nil {
		return nil
	}
	var problem string
	switch {
	case kubelet.Major() > api.Major(), kubelet.Major() == api.Major() && kubelet.Minor() > api.Minor():
		problem = "newer than"
	case kubelet.Major() < api.Major(), kubelet.Minor()+maxSkew < api.Minor():
		problem = fmt.Sprintf("more than %d minor versions older than", maxSkew)
	default:
		return nil
	}
	return &Terminal{
		Reason: v1alpha1.ErrorUnsupportedKubeletVersion,
		Message: fmt.Sprintf("spec.versions.kubelet: %s is %s the API server's %s, which Kubernetes does not support: choose another, or allow it with the annotation %s=true",
			machine.Spec.Versions.Kubelet, problem, server, v1alpha1.AllowKubeletVersionSkewAnnotation),
	}
}
