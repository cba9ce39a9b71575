package confine

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// checkAffinity refuses affinity to pods of other namespaces. The scheduler keeps a required anti-affinity both ways: with the selector
// of all namespaces and a topology that all Nodes share, one pod of a load test would keep every other pod of the cluster pending.
func checkAffinity(at string, affinity *corev1.Affinity) error {
	if affinity == nil {
		return nil
	}
	terms := map[string]*corev1.PodAffinityTerm{}
	add := func(field string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			terms[fmt.Sprintf("%s.requiredDuringSchedulingIgnoredDuringExecution[%d]", field, i)] = &required[i]
		}
		for i := range preferred {
			terms[fmt.Sprintf("%s.preferredDuringSchedulingIgnoredDuringExecution[%d].podAffinityTerm", field, i)] = &preferred[i].PodAffinityTerm
		}
	}
	if pods := affinity.PodAffinity; pods != nil {
		add("podAffinity", pods.RequiredDuringSchedulingIgnoredDuringExecution, pods.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if pods := affinity.PodAntiAffinity; pods != nil {
		add("podAntiAffinity", pods.RequiredDuringSchedulingIgnoredDuringExecution, pods.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	for field, term := range terms {
		name := "namespaceSelector"
		if len(term.Namespaces) > 0 {
			name = "namespaces"
		} else if term.NamespaceSelector == nil {
			continue
		}
		return refuseField(fmt.Sprintf("%s.affinity.%s.%s", at, field, name), "it keeps pods of other namespaces from Nodes: remove it, which means the namespace of the pod")
	}
	return nil
}
