package machinefleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/live"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// The kinds that trees are made of.
const (
	fleets      = "MachineFleet"
	clusters    = "Cluster"
	deployments = "MachineDeployment"
	sets        = "MachineSet"
	machines    = "Machine"
)

// root is the object that a tree starts with.
type root struct {
	kind            cmdutil.Kind
	name, namespace string
}

// listKinds are what the tree is made of: one list for each kind, however many clusters there are.
func (r root) listKinds() []live.Kind {
	named := []client.ListOption{client.MatchingFields{"metadata.name": r.name}}
	inside := []client.ListOption{client.InNamespace(r.namespace)}
	switch r.kind {
	case cmdutil.FleetKind:
		return []live.Kind{
			{Name: fleets, List: &v1alpha1.MachineFleetList{}, Options: named}, {Name: clusters, List: &v1alpha1.ClusterList{}},
			{Name: deployments, List: &v1alpha1.MachineDeploymentList{}, Options: named},
			{Name: sets, List: &v1alpha1.MachineSetList{}}, {Name: machines, List: &v1alpha1.MachineList{}},
		}
	case cmdutil.ClusterKind:
		inside = []client.ListOption{client.InNamespace(r.name)}
		return []live.Kind{
			{Name: clusters, List: &v1alpha1.ClusterList{}, Options: named}, {Name: deployments, List: &v1alpha1.MachineDeploymentList{}, Options: inside},
			{Name: sets, List: &v1alpha1.MachineSetList{}, Options: inside}, {Name: machines, List: &v1alpha1.MachineList{}, Options: inside},
		}
	case cmdutil.SimulatedSetKind:
		return kindsOfSimulatedSet(r.name)
	default:
		return []live.Kind{
			{Name: deployments, List: &v1alpha1.MachineDeploymentList{}, Options: append(named, inside...)},
			{Name: sets, List: &v1alpha1.MachineSetList{}, Options: inside}, {Name: machines, List: &v1alpha1.MachineList{}, Options: inside},
		}
	}
}

// forest is what was read for a tree.
type forest struct {
	root root

	fleet       *v1alpha1.MachineFleet
	clusters    map[string]*v1alpha1.Cluster
	deployments []*v1alpha1.MachineDeployment
	// simulatedSet is the root, if it is one, and simulated are its SimulatedClusters.
	simulatedSet *v1alpha1.SimulatedClusterSet
	simulated    []*v1alpha1.SimulatedCluster
	// sets and machines are by the UID of their controller.
	sets     map[types.UID][]*v1alpha1.MachineSet
	machines map[types.UID][]*v1alpha1.Machine
	// left says what could not be listed, and forbidden are the kinds of it that the user may not list.
	left, forbidden []string
}

// describeUnread is cmdutil.Hub.DescribeUnread.
type describeUnread func(error) (why string, partial, forbidden bool)

// newForest sorts what was read. A kind that could not be read is left out, unless it is that of the root.
func newForest(r root, known map[string]live.Snapshot, describe describeUnread) (*forest, error) {
	f := &forest{root: r, clusters: map[string]*v1alpha1.Cluster{}, sets: map[types.UID][]*v1alpha1.MachineSet{}, machines: map[types.UID][]*v1alpha1.Machine{}}
	for i, kind := range r.listKinds() {
		snapshot := known[kind.Name]
		if snapshot.List != nil || snapshot.Err == nil {
			continue
		}
		why, partial, forbidden := describe(snapshot.Err)
		if i == 0 || !partial {
			return nil, fmt.Errorf("listing %ss: %w", strings.ToLower(kind.Name), snapshot.Err)
		}
		f.left = append(f.left, kind.Name+": "+why)
		if forbidden {
			f.forbidden = append(f.forbidden, kind.Name)
		}
	}
	for _, snapshot := range known {
		f.addList(snapshot.List)
	}
	slices.SortFunc(f.deployments, func(a, b *v1alpha1.MachineDeployment) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(f.simulated, func(a, b *v1alpha1.SimulatedCluster) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	for _, below := range f.sets {
		slices.SortFunc(below, func(a, b *v1alpha1.MachineSet) int { return cmp.Compare(a.Name, b.Name) })
	}
	for _, below := range f.machines {
		slices.SortFunc(below, func(a, b *v1alpha1.Machine) int { return cmp.Compare(a.Name, b.Name) })
	}
	return f, nil
}

func (f *forest) addList(list client.ObjectList) {
	switch list := list.(type) {
	case *v1alpha1.MachineFleetList:
		for i := range list.Items {
			f.fleet = &list.Items[i]
		}
	case *v1alpha1.ClusterList:
		for i := range list.Items {
			f.clusters[list.Items[i].Name] = &list.Items[i]
		}
	case *v1alpha1.MachineDeploymentList:
		for i := range list.Items {
			f.deployments = append(f.deployments, &list.Items[i])
		}
	case *v1alpha1.MachineSetList:
		for i := range list.Items {
			if owner := metav1.GetControllerOfNoCopy(&list.Items[i]); owner != nil {
				f.sets[owner.UID] = append(f.sets[owner.UID], &list.Items[i])
			}
		}
	case *v1alpha1.MachineList:
		for i := range list.Items {
			if owner := metav1.GetControllerOfNoCopy(&list.Items[i]); owner != nil {
				f.machines[owner.UID] = append(f.machines[owner.UID], &list.Items[i])
			}
		}
	default:
		f.addSimulated(list)
	}
}

// grow returns the tree, or the error of a root that does not exist.
func (f *forest) grow() ([]*Node, error) {
	switch f.root.kind {
	case cmdutil.FleetKind:
		if f.fleet == nil {
			return nil, cmdutil.NotFoundObject(f.root.kind, f.root.name, "")
		}
		return []*Node{f.growFleet()}, nil
	case cmdutil.ClusterKind:
		cluster := f.clusters[f.root.name]
		if cluster == nil {
			return nil, cmdutil.NotFoundObject(f.root.kind, f.root.name, "")
		}
		return []*Node{f.growCluster(cluster)}, nil
	case cmdutil.SimulatedSetKind:
		return f.growSimulatedSet()
	default:
		if len(f.deployments) == 0 {
			return nil, cmdutil.NotFoundObject(f.root.kind, f.root.name, f.root.namespace)
		}
		return []*Node{f.growDeployment(f.deployments[0])}, nil
	}
}

func (f *forest) growFleet() *Node {
	tree := newNode(fleets, f.fleet, f.fleet.Status.Conditions, f.fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet)
	for _, deployment := range f.deployments {
		if !rollout.Owns(f.fleet, deployment) {
			continue
		}
		branch := &Node{Name: clusters + "/" + deployment.Namespace}
		if cluster := f.clusters[deployment.Namespace]; cluster != nil {
			branch = newNode(clusters, cluster, cluster.Status.Conditions, "")
		}
		branch.Children = []*Node{f.growDeployment(deployment)}
		tree.Children = append(tree.Children, branch)
	}
	return tree
}

// growDeployment is a MachineDeployment with all that is below it.
func (f *forest) growDeployment(deployment *v1alpha1.MachineDeployment) *Node {
	tree := newNode(deployments, deployment, deployment.Status.Conditions, deployment.Spec.Template.Spec.Versions.Kubelet)
	for _, set := range f.sets[deployment.UID] {
		if set.Status.Replicas == 0 && set.Spec.Replicas != nil && *set.Spec.Replicas == 0 {
			continue // An empty set is an earlier revision.
		}
		branch := newNode(sets, set, set.Status.Conditions, set.Spec.Template.Spec.Versions.Kubelet)
		for _, machine := range f.machines[set.UID] {
			branch.Children = append(branch.Children, growMachine(machine))
		}
		tree.Children = append(tree.Children, branch)
	}
	return tree
}

func growMachine(machine *v1alpha1.Machine) *Node {
	leaf := newNode(machines, machine, machine.Status.Conditions, machine.Spec.Versions.Kubelet)
	leaf.Frozen = ""
	if ref := machine.Status.NodeRef; ref != nil {
		child := &Node{Name: "Node/" + ref.Name}
		if machine.Status.Versions != nil {
			child.Kubelet = machine.Status.Versions.Kubelet
		}
		leaf.Children = []*Node{child}
	}
	return leaf
}

// newNode is a node with the conditions of an object.
func newNode(kind string, object client.Object, conditions []metav1.Condition, kubelet string) *Node {
	n := &Node{
		Name: kind + "/" + object.GetName(), Kubelet: kubelet, Object: object,
		Ready: formatCondition(conditions, v1alpha1.ReadyCondition), Frozen: formatFrozen(conditions),
	}
	for _, kind := range []string{v1alpha1.FrozenCondition, v1alpha1.ReadyCondition} {
		found := meta.FindStatusCondition(conditions, kind)
		if found != nil && (found.Status == metav1.ConditionTrue) == (kind == v1alpha1.FrozenCondition) {
			n.Reason, n.Message = found.Reason, found.Message
			break
		}
	}
	return n
}

// formatFrozen is the condition Frozen, with its reason if it is True.
func formatFrozen(conditions []metav1.Condition) string {
	found := meta.FindStatusCondition(conditions, v1alpha1.FrozenCondition)
	switch {
	case found == nil:
		return ""
	case found.Status == metav1.ConditionTrue:
		return fmt.Sprintf("%s (%s)", found.Status, found.Reason)
	}
	return string(found.Status)
}
