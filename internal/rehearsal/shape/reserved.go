package shape

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// reservedLabels are those that the kubelet of a hollow Node sets itself, whatever the real one says, and reservedDomain is closed to it.
var reservedLabels = []string{corev1.LabelOSStable, corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch"}

const (
	reservedDomain = "node-restriction.kubernetes.io"
	// ownDomain is that of what a rehearsal sets itself.
	ownDomain = "rehearsal.hollowfleet.io"
	// longestKey is how long the name of a label may be, without its domain.
	longestKey = 63
)

func isReserved(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return slices.Contains(reservedLabels, key) || domain == reservedDomain || strings.HasSuffix(domain, "."+reservedDomain)
}

// renameKey is the key that a label of Nodes has in a rehearsal: Nodes and the pods that ask for it name it alike.
func renameKey(key string) string {
	if !isReserved(key) {
		return key
	}
	name := strings.ReplaceAll(key, "/", "_")
	return ownDomain + "/" + strings.Trim(name[max(len(name)-longestKey, 0):], "-_.")
}

func renameSelector(selector map[string]string) map[string]string {
	if selector == nil {
		return nil
	}
	renamed := map[string]string{}
	for key, value := range selector {
		renamed[renameKey(key)] = value
	}
	return renamed
}

func renameSpread(constraints []corev1.TopologySpreadConstraint) []corev1.TopologySpreadConstraint {
	constraints = slices.Clone(constraints)
	for index := range constraints {
		constraints[index].TopologyKey = renameKey(constraints[index].TopologyKey)
	}
	return constraints
}

// renameAffinity renames keys in place.
func renameAffinity(affinity *corev1.Affinity) {
	if node := affinity.NodeAffinity; node != nil {
		if required := node.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			for index := range required.NodeSelectorTerms {
				renameTerm(&required.NodeSelectorTerms[index])
			}
		}
		for index := range node.PreferredDuringSchedulingIgnoredDuringExecution {
			renameTerm(&node.PreferredDuringSchedulingIgnoredDuringExecution[index].Preference)
		}
	}
	rename := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for index := range required {
			required[index].TopologyKey = renameKey(required[index].TopologyKey)
		}
		for index := range preferred {
			preferred[index].PodAffinityTerm.TopologyKey = renameKey(preferred[index].PodAffinityTerm.TopologyKey)
		}
	}
	if pod := affinity.PodAffinity; pod != nil {
		rename(pod.RequiredDuringSchedulingIgnoredDuringExecution, pod.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if pod := affinity.PodAntiAffinity; pod != nil {
		rename(pod.RequiredDuringSchedulingIgnoredDuringExecution, pod.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func renameTerm(term *corev1.NodeSelectorTerm) {
	for index := range term.MatchExpressions {
		term.MatchExpressions[index].Key = renameKey(term.MatchExpressions[index].Key)
	}
}
