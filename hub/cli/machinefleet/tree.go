package machinefleet

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/live"
)

var treeKinds = []cmdutil.Kind{cmdutil.FleetKind, cmdutil.ClusterKind, cmdutil.DeploymentKind, cmdutil.SimulatedSetKind}

// firstAnswer is how long a tree that is followed waits for the hub's API server.
const firstAnswer = 30 * time.Second

func newTree(hub *cmdutil.Hub) *cobra.Command {
	var (
		output *cmdutil.Output
		watch  bool
	)
	command := &cobra.Command{
		Use: "tree fleet|cluster|machinedeployment|simulatedclusterset NAME", Short: "Show a MachineFleet, a Cluster, a MachineDeployment or a SimulatedClusterSet down to its Nodes",
		Long: `Show an object and everything below it as a tree: MachineFleet, Cluster, MachineDeployment, MachineSet, Machine, Node;
or SimulatedClusterSet, SimulatedCluster, which show the version of their control plane, Cluster and so on. Each object is shown with its conditions Ready and Frozen. Nodes are objects of the workload cluster: only their names are shown,
as the agents have reported them. What you may not list is left out and named; the exit code is then 4.

With --watch, the command continues until it is interrupted (exit code 130) or the object is deleted (3). On a terminal it redraws one
screen, on which healthy objects are counted where not all have room; otherwise it prints the tree again when it changes, with -o json
one document per line.`,
		Example: `  kubectl hollow fleet tree fleet/workers
  kubectl hollow fleet tree cluster/c1 -w
  kubectl hollow fleet tree machinedeployment/workers -n c1

  # For a script
  kubectl hollow fleet tree workers -o json | jq -r '.. | objects | select(.kind == "Machine" and .ready != "True").name'`,
		ValidArgsFunction: hub.CompleteObjects(treeKinds...),
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 1 && !strings.Contains(args[0], "/") {
				args = []string{string(cmdutil.FleetKind), args[0]} // "fleet tree NAME" can only be of a fleet.
			}
			kind, name, err := cmdutil.Object(command, args, treeKinds...)
			if err != nil {
				return err
			}
			return printTree(command.Context(), hub, output, kind, name, watch)
		},
	}
	output = cmdutil.NewTableOutput(command)
	command.Flags().BoolVarP(&watch, "watch", "w", false, "continue to show the tree when it changes, until interrupted")
	return command
}

func printTree(ctx context.Context, hub *cmdutil.Hub, output *cmdutil.Output, kind cmdutil.Kind, name string, watch bool) error {
	document, err := output.Document()
	if err != nil {
		return err
	}
	c, err := hub.Client()
	if err != nil {
		return err
	}
	r, err := findRoot(ctx, hub, c, kind, name)
	if err != nil {
		return err
	}
	if watch {
		view := &treeView{hub: hub, output: output, document: document, root: r, missing: map[string]bool{}}
		err := live.Follow(ctx, hub, c, r.listKinds(), view, live.Options{First: firstAnswer, Printed: document.Format != ""})
		return errors.Join(view.gone, err)
	}
	now := time.Now()
	f, err := newForest(r, live.ReadKinds(ctx, c, r.listKinds()), hub.DescribeUnread)
	if err != nil {
		return err
	}
	roots, err := f.grow()
	if err != nil {
		return err
	}
	if document.Format != "" {
		var stale []string
		if problem := cmdutil.DescribeStoppedHub(ctx, c, ""); problem != "" {
			stale = append(stale, lastKnown+problem)
		}
		err = document.Print(hub.Out, newTreeDocument(roots, f.left, stale, now))
	} else {
		for _, left := range f.left {
			hub.Note("Left out: %s", left)
		}
		hub.NoteOldTable(ctx, c)
		err = output.Table(hub.Out, tableOf(roots))
	}
	if err == nil && len(f.forbidden) > 0 {
		return cmdutil.Refusal("the tree is not complete: you may not list: %s", strings.Join(f.forbidden, ", "))
	}
	return err
}

// ReadTree reads an object with those below it. What the user may not list is left out.
func ReadTree(ctx context.Context, hub *cmdutil.Hub, c client.Client, kind cmdutil.Kind, name string) ([]*Node, error) {
	r, err := findRoot(ctx, hub, c, kind, name)
	if err != nil {
		return nil, err
	}
	f, err := newForest(r, live.ReadKinds(ctx, c, r.listKinds()), hub.DescribeUnread)
	if err != nil {
		return nil, err
	}
	return f.grow()
}

// findRoot reads the object that a tree starts with: it exists and can be decoded.
func findRoot(ctx context.Context, hub *cmdutil.Hub, c client.Client, kind cmdutil.Kind, name string) (root, error) {
	r := root{kind: kind, name: name}
	object := map[cmdutil.Kind]client.Object{
		cmdutil.FleetKind: &v1alpha1.MachineFleet{}, cmdutil.ClusterKind: &v1alpha1.Cluster{}, cmdutil.DeploymentKind: &v1alpha1.MachineDeployment{},
		cmdutil.SimulatedSetKind: &v1alpha1.SimulatedClusterSet{},
	}[kind]
	if kind == cmdutil.DeploymentKind {
		var err error
		if r.namespace, err = hub.Namespace(); err != nil {
			return root{}, err
		}
	}
	return r, cmdutil.Get(ctx, c, kind, client.ObjectKey{Namespace: r.namespace, Name: name}, object)
}

// Node is an object with what belongs to it.
type Node struct {
	// Name is its kind and name, such as Machine/x. Ready and Frozen are its conditions, and Reason and Message are those of the one which is
	// not as one hopes.
	Name, Ready, Frozen, Kubelet, Reason, Message string
	Children                                      []*Node
	// Object is nil for what the hub does not have: a Node.
	Object client.Object
}

func tableOf(roots []*Node) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("Object", "Ready", "Frozen", "Kubelet", "+Message")}
	for _, root := range roots {
		root.walk("", "", func(n *Node, prefix, _ string) {
			table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
				prefix + n.Name, cmp.Or(n.Ready, "-"), cmp.Or(n.Frozen, "-"), cmp.Or(n.Kubelet, "-"), n.Message,
			}})
		})
	}
	return table
}

// walk calls do with the node and with all below it. The first prefix is that of the node itself, the other that of what is below.
func (n *Node) walk(first, below string, do func(n *Node, first, below string)) {
	do(n, first, below)
	for i, child := range n.Children {
		if i == len(n.Children)-1 {
			child.walk(below+"└─ ", below+"   ", do)
		} else {
			child.walk(below+"├─ ", below+"│  ", do)
		}
	}
}
