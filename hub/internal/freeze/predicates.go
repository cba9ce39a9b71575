package freeze

import (
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// ClusterChanged lets changes of a Cluster pass that freeze or thaw what belongs to it.
func ClusterChanged() predicate.Predicate {
	return reconciler.Changed(func(cluster *v1alpha1.Cluster) any {
		return OfCluster(cluster.Name, cluster.Name, cluster)
	})
}

// DeploymentChanged lets changes of a MachineDeployment pass that freeze or thaw what belongs to it.
func DeploymentChanged() predicate.Predicate {
	return reconciler.Changed(func(deployment *v1alpha1.MachineDeployment) any {
		return OfDeployment(deployment)
	})
}
