package hollow

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ownLabels are the labels below kubernetes.io and k8s.io that a kubelet may set on its own Node.
var ownLabels = []string{
	corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, corev1.LabelOSStable, corev1.LabelArchStable,
	"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

// kubeletMaySet tells whether the NodeRestriction admission plugin lets a kubelet put a label on its Node.
func kubeletMaySet(label string) bool {
	domain, _, qualified := strings.Cut(label, "/")
	if !qualified {
		return true
	}
	if within(domain, corev1.LabelNamespaceNodeRestriction) {
		return false
	}
	if !within(domain, "kubernetes.io") && !within(domain, "k8s.io") {
		return true
	}
	return slices.Contains(ownLabels, label) ||
		within(domain, corev1.LabelNamespaceSuffixKubelet) || within(domain, corev1.LabelNamespaceSuffixNode)
}

func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}
