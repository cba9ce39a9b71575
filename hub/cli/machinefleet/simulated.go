package machinefleet

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/live"
)

const (
	simulatedSets     = "SimulatedClusterSet"
	simulatedClusters = "SimulatedCluster"
)

// kindsOfSimulatedSet are what the tree of a SimulatedClusterSet is made of. Its clusters may be in any namespace.
func kindsOfSimulatedSet(name string) []live.Kind {
	return []live.Kind{
		{Name: simulatedSets, List: &v1alpha1.SimulatedClusterSetList{}, Options: []client.ListOption{client.MatchingFields{metav1.ObjectNameField: name}}},
		{Name: simulatedClusters, List: &v1alpha1.SimulatedClusterList{}, Options: []client.ListOption{client.MatchingLabels{v1alpha1.SimulatedClusterSetNameLabel: name}}},
		{Name: clusters, List: &v1alpha1.ClusterList{}}, {Name: deployments, List: &v1alpha1.MachineDeploymentList{}},
		{Name: sets, List: &v1alpha1.MachineSetList{}}, {Name: machines, List: &v1alpha1.MachineList{}},
	}
}

// addSimulated takes in a list of simulated clusters or their sets.
func (f *forest) addSimulated(list client.ObjectList) {
	switch list := list.(type) {
	case *v1alpha1.SimulatedClusterSetList:
		for i := range list.Items {
			f.simulatedSet = &list.Items[i]
		}
	case *v1alpha1.SimulatedClusterList:
		for i := range list.Items {
			f.simulated = append(f.simulated, &list.Items[i])
		}
	}
}

// growSimulatedSet is a set with its clusters, and with what is in the Cluster of each. The versions are those of the control planes.
func (f *forest) growSimulatedSet() ([]*Node, error) {
	set := f.simulatedSet
	if set == nil {
		return nil, cmdutil.NotFoundObject(f.root.kind, f.root.name, "")
	}
	tree := newNode(simulatedSets, set, set.Status.Conditions, set.Spec.Template.Spec.Versions.ControlPlane)
	for _, one := range f.simulated {
		if !metav1.IsControlledBy(one, set) {
			continue
		}
		version := one.Spec.Versions.ControlPlane
		if one.Status.Versions != nil {
			version = cmp.Or(one.Status.Versions.ControlPlane, version)
		}
		branch := newNode(simulatedClusters, one, one.Status.Conditions, version)
		if cluster := f.clusters[one.Name]; cluster != nil {
			branch.Children = []*Node{f.growCluster(cluster)}
		}
		tree.Children = append(tree.Children, branch)
	}
	return []*Node{tree}, nil
}

// growCluster is a Cluster with its MachineDeployments and all that is below them.
func (f *forest) growCluster(cluster *v1alpha1.Cluster) *Node {
	tree := newNode(clusters, cluster, cluster.Status.Conditions, "")
	for _, deployment := range f.deployments {
		if deployment.Namespace == cluster.Name {
			tree.Children = append(tree.Children, f.growDeployment(deployment))
		}
	}
	return tree
}
