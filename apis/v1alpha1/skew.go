package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// maxSkew is how many minor versions a kubelet may be older than its API server.
// https://kubernetes.io/releases/version-skew-policy/#kubelet
const maxSkew = 3

// UnsupportedKubelet says why Kubernetes does not support a kubelet of one version at an API server of another, for a
// Machine or template with these annotations. It is empty if all is fine, if it is unknown because a version is not
// known, or if the annotations allow it.
func UnsupportedKubelet(kubelet, server string, annotations map[string]string) string {
	if annotations[AllowKubeletVersionSkewAnnotation] == "true" {
		return ""
	}
	node, err := version.ParseGeneric(kubelet)
	if err != nil {
		return ""
	}
	api, err := version.ParseGeneric(server)
	if err != nil {
		return ""
	}
	var problem string
	switch {
	case node.Major() > api.Major(), node.Major() == api.Major() && node.Minor() > api.Minor():
		problem = "newer than"
	case node.Major() < api.Major(), node.Minor()+maxSkew < api.Minor():
		problem = fmt.Sprintf("more than %d minor versions older than", maxSkew)
	default:
		return ""
	}
	return fmt.Sprintf("%s is %s the API server's %s, which Kubernetes does not support", kubelet, problem, server)
}

// IsKubeletTooOld reports whether Kubernetes does not support a kubelet of one version at an API server of another because it is too old; not
// if one of them is not known.
func IsKubeletTooOld(kubelet, server string) bool {
	node, err := version.ParseGeneric(kubelet)
	if err != nil {
		return false
	}
	api, err := version.ParseGeneric(server)
	return err == nil && (node.Major() < api.Major() || node.Major() == api.Major() && node.Minor()+maxSkew < api.Minor())
}

// IsEarlierMinor reports whether a version is of an earlier minor than another; not if one of them is not known.
func IsEarlierMinor(a, b string) bool {
	first, err := version.ParseGeneric(a)
	if err != nil {
		return false
	}
	second, err := version.ParseGeneric(b)
	if err != nil {
		return false
	}
	return first.Major() < second.Major() || first.Major() == second.Major() && first.Minor() < second.Minor()
}
