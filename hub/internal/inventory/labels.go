// Package inventory has what the pictures of a Cluster in the inventories of others have in common: which labels
// they carry, how they say that the cluster is well, and how they are written and told about.
package inventory

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// kept are the domains whose labels mean something about the very object that carries them, so that a copy would
// be false: those of Kubernetes, of this hub and of Open Cluster Management (membership of a cluster set is a
// right there, checked when the label is written), and those by which GitOps tools know what to prune.
var kept = []string{"kubernetes.io", "k8s.io", "hollowfleet.io", "open-cluster-management.io", "argoproj.io", "fluxcd.io"}

// topology is the one domain of Kubernetes that says where a cluster is.
const topology = "topology.kubernetes.io"

// Labels are those of labels that are worth copying to another object: the users' own, and the topology.
func Labels(labels map[string]string) map[string]string {
	copied := map[string]string{}
	for key, value := range labels {
		if copyable(key) {
			copied[key] = value
		}
	}
	return copied
}

func copyable(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	if !found || domain == topology {
		return true
	}
	return !slices.ContainsFunc(kept, func(kept string) bool {
		return domain == kept || strings.HasSuffix(domain, "."+kept)
	})
}

// CopyLabels makes object carry wanted, and nothing of what was copied to it before and is not wanted any more.
// Labels that others gave it stay.
func CopyLabels(object metav1.Object, wanted map[string]string) {
	labels, annotations := maps.Clone(object.GetLabels()), maps.Clone(object.GetAnnotations())
	for key := range strings.SplitSeq(annotations[v1alpha1.CopiedLabelsAnnotation], ",") {
		if copyable(key) { // Else another client has written into the list what can't have been copied.
			delete(labels, key)
		}
	}
	delete(annotations, v1alpha1.CopiedLabelsAnnotation)
	if len(wanted) > 0 {
		labels, annotations = ensure(labels), ensure(annotations)
		maps.Copy(labels, wanted)
		annotations[v1alpha1.CopiedLabelsAnnotation] = strings.Join(slices.Sorted(maps.Keys(wanted)), ",")
	}
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
}

func ensure(values map[string]string) map[string]string {
	if values == nil {
		return map[string]string{}
	}
	return values
}
