package machinefleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

var treeKinds = []cmdutil.Kind{cmdutil.FleetKind, cmdutil.ClusterKind, cmdutil.DeploymentKind}

func newTree(hub *cmdutil.Hub) *cobra.Command {
	var output *cmdutil.Output
	command := &cobra.Command{
		Use: "tree fleet|cluster|machinedeployment NAME", Short: "Show a MachineFleet, a Cluster or a MachineDeployment down to its Nodes",
		Long: `Show an object and everything below it as a tree: MachineFleet, Cluster, MachineDeployment, MachineSet, Machine, Node. Each
object is shown with its conditions Ready and Frozen. Nodes are objects of the workload cluster: only their names are shown,
as the agents have reported them.`,
		Example: `  kubectl hollow fleet tree fleet/workers
  kubectl hollow fleet tree cluster/c1
  kubectl hollow fleet tree machinedeployment/workers -n c1`,
		ValidArgsFunction: hub.CompleteObjects(treeKinds...),
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 1 && !strings.Contains(args[0], "/") {
				args = []string{string(cmdutil.FleetKind), args[0]} // "fleet tree NAME" can only be of a fleet.
			}
			kind, name, err := cmdutil.Object(command, args, treeKinds...)
			if err != nil {
				return err
			}
			return printTree(command.Context(), hub, output, kind, name)
		},
	}
	output = cmdutil.NewTableOutput(command)
	return command
}

func printTree(ctx context.Context, hub *cmdutil.Hub, output *cmdutil.Output, kind cmdutil.Kind, name string) error {
	if _, asTable := output.Own(); !asTable {
		return cmdutil.Usage("tree prints a table: leave -o out, or give -o wide")
	}
	c, err := hub.Client()
	if err != nil {
		return err
	}
	roots, err := readBelow(ctx, hub, c, kind, name)
	if err != nil {
		return err
	}
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("Object", "Ready", "Frozen", "Kubelet", "+Message")}
	for _, root := range roots {
		root.addRows(table, "", "")
	}
	hub.NoteOldTable(ctx, c)
	return output.Table(hub.Out, table)
}

// node is an object with what belongs to it.
type node struct {
	name, ready, frozen, kubelet, message string
	children                              []*node
}

// addRows adds the node and what is below it. The first prefix is that of the node itself, the other that of what is below.
func (n *node) addRows(table *metav1.Table, first, below string) {
	table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
		first + n.name, cmp.Or(n.ready, "-"), cmp.Or(n.frozen, "-"), cmp.Or(n.kubelet, "-"), n.message,
	}})
	for i, child := range n.children {
		if i == len(n.children)-1 {
			child.addRows(table, below+"└─ ", below+"   ")
		} else {
			child.addRows(table, below+"├─ ", below+"│  ")
		}
	}
}

// newNode is a node with the conditions of an object.
func newNode(kind, name string, conditions []metav1.Condition, kubelet string) *node {
	n := &node{
		name: kind + "/" + name, kubelet: kubelet,
		ready: formatCondition(conditions, v1alpha1.ReadyCondition), frozen: formatFrozen(conditions),
	}
	for _, kind := range []string{v1alpha1.FrozenCondition, v1alpha1.ReadyCondition} {
		found := meta.FindStatusCondition(conditions, kind)
		if found != nil && (found.Status == metav1.ConditionTrue) == (kind == v1alpha1.FrozenCondition) {
			n.message = found.Message
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

// readBelow reads the objects below one.
func readBelow(ctx context.Context, hub *cmdutil.Hub, c client.Client, kind cmdutil.Kind, name string) ([]*node, error) {
	if kind == cmdutil.FleetKind {
		return growFleet(ctx, hub, c, name)
	}
	if kind == cmdutil.ClusterKind {
		cluster := &v1alpha1.Cluster{}
		if err := cmdutil.Get(ctx, c, kind, client.ObjectKey{Name: name}, cluster); err != nil {
			return nil, err
		}
		root := newNode("Cluster", name, cluster.Status.Conditions, "")
		var err error
		root.children, err = growDeployments(ctx, hub, c, name, "")
		return []*node{root}, err
	}
	namespace, err := hub.Namespace()
	if err != nil {
		return nil, err
	}
	roots, err := growDeployments(ctx, hub, c, namespace, name)
	if err == nil && len(roots) == 0 {
		return nil, cmdutil.NotFoundObject(cmdutil.DeploymentKind, name, namespace)
	}
	return roots, err
}

func growFleet(ctx context.Context, hub *cmdutil.Hub, c client.Client, name string) ([]*node, error) {
	found, err := getFleet(ctx, c, name)
	if err != nil {
		return nil, err
	}
	root := newNode("MachineFleet", name, found.Status.Conditions, found.Spec.Template.Spec.Template.Spec.Versions.Kubelet)
	clusters, deployments := &v1alpha1.ClusterList{}, &v1alpha1.MachineDeploymentList{}
	if err := c.List(ctx, deployments, client.MatchingFields{"metadata.name": name}); err != nil {
		return nil, fmt.Errorf("listing machinedeployments: %w", err)
	}
	if err := hub.ListKnown(ctx, c, clusters); err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	byName := map[string]*v1alpha1.Cluster{}
	for i := range clusters.Items {
		byName[clusters.Items[i].Name] = &clusters.Items[i]
	}
	slices.SortFunc(deployments.Items, func(a, b v1alpha1.MachineDeployment) int { return cmp.Compare(a.Namespace, b.Namespace) })
	for i := range deployments.Items {
		deployment := &deployments.Items[i]
		if !rollout.Owns(found, deployment) {
			continue
		}
		branch := &node{name: "Cluster/" + deployment.Namespace}
		if cluster := byName[deployment.Namespace]; cluster != nil {
			branch = newNode("Cluster", cluster.Name, cluster.Status.Conditions, "")
		}
		if branch.children, err = growDeployments(ctx, hub, c, deployment.Namespace, name); err != nil {
			return nil, err
		}
		root.children = append(root.children, branch)
	}
	return []*node{root}, nil
}

// growDeployments reads the MachineDeployments of a namespace, or the one of that name, with all that is below them.
func growDeployments(ctx context.Context, hub *cmdutil.Hub, c client.Client, namespace, name string) ([]*node, error) {
	deployments, sets, machines := &v1alpha1.MachineDeploymentList{}, &v1alpha1.MachineSetList{}, &v1alpha1.MachineList{}
	for what, list := range map[string]client.ObjectList{"machinedeployments": deployments, "machinesets": sets, "machines": machines} {
		if err := hub.ListKnown(ctx, c, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("listing %s: %w", what, err)
		}
	}
	var roots []*node
	for i := range deployments.Items {
		deployment := &deployments.Items[i]
		if name != "" && deployment.Name != name {
			continue
		}
		root := newNode("MachineDeployment", deployment.Name, deployment.Status.Conditions, deployment.Spec.Template.Spec.Versions.Kubelet)
		for j := range sets.Items {
			set := &sets.Items[j]
			if !metav1.IsControlledBy(set, deployment) || set.Status.Replicas == 0 && set.Spec.Replicas != nil && *set.Spec.Replicas == 0 {
				continue // An empty set is an earlier revision.
			}
			branch := newNode("MachineSet", set.Name, set.Status.Conditions, set.Spec.Template.Spec.Versions.Kubelet)
			for k := range machines.Items {
				if machine := &machines.Items[k]; metav1.IsControlledBy(machine, set) {
					branch.children = append(branch.children, growMachine(machine))
				}
			}
			root.children = append(root.children, branch)
		}
		roots = append(roots, root)
	}
	return roots, nil
}

func growMachine(machine *v1alpha1.Machine) *node {
	leaf := newNode("Machine", machine.Name, machine.Status.Conditions, machine.Spec.Versions.Kubelet)
	leaf.frozen = ""
	if ref := machine.Status.NodeRef; ref != nil {
		child := &node{name: "Node/" + ref.Name}
		if machine.Status.Versions != nil {
			child.kubelet = machine.Status.Versions.Kubelet
		}
		leaf.children = []*node{child}
	}
	return leaf
}
