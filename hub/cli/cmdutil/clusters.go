package cmdutil

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// ClustersUsage is the help of a flag --clusters whose default is AllClusters.
const ClustersUsage = "label selector of Clusters (default: all without the label " + v1alpha1.HostsLabel + "=" + v1alpha1.HostsSimulatedClusters + ")"

// AllClusters selects all Clusters but those that host simulated ones: what is to hit workload clusters must not end what runs them, and
// the host of a local fleet has no Nodes.
func AllClusters() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: v1alpha1.HostsLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{v1alpha1.HostsSimulatedClusters}},
	}}
}
