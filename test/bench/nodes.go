package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// podsOfEachNode is how many pods each node of the row "nodes" runs, after it was measured without.
const podsOfEachNode = 10

// nodeFigures is what a node of one kind takes, kubelet's side.
type nodeFigures struct {
	Kind string `json:"kind"`
	// AtRest is without pods, WithPods with podsOfEachNode.
	AtRest   cost `json:"atRest,omitzero"`
	WithPods cost `json:"withPods,omitzero"`
}

// nodeKind is a configuration of hollow nodes.
type nodeKind struct {
	name, profile string
	serves        bool
}

var nodeKinds = []nodeKind{
	{name: "Fast", profile: string(v1alpha1.HollowNodeProfileFast)},
	{name: "Fast with a port", profile: string(v1alpha1.HollowNodeProfileFast), serves: true},
	{name: "Realistic", profile: string(v1alpha1.HollowNodeProfileRealistic)},
	{name: "Realistic with a port", profile: string(v1alpha1.HollowNodeProfileRealistic), serves: true},
}

// measureNodes measures each kind of nodes in a fleet of its own: opts.machines of one cluster, at rest, without and with pods.
func measureNodes(ctx context.Context, opts scaleOptions, mode scaleMode) (all []nodeFigures, err error) {
	for _, kind := range nodeKinds {
		fmt.Fprintf(opts.progress, "%s: measuring nodes: %s\n", mode.name, kind.name)
		err := withFleet(ctx, opts, mode, 1, 0, func(ctx context.Context, fleet *upFleet) error {
			figures, err := measureKind(ctx, opts, fleet, kind)
			if err == nil {
				all = append(all, figures)
			}
			return err
		})
		if err != nil {
			return all, fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	return all, nil
}

func measureKind(ctx context.Context, opts scaleOptions, fleet *upFleet, kind nodeKind) (figures nodeFigures, err error) {
	hub, err := clientOf(fleet.report.Hub.Kubeconfig)
	if err != nil {
		return figures, err
	}
	cluster := fleet.report.Clusters[0]
	workload, err := clientOf(cluster.Kubeconfig)
	if err != nil {
		return figures, err
	}
	configured := opts.options
	configured.profile, configured.surge, configured.serves = kind.profile, "1", kind.serves
	if err := createEmpty(ctx, hub, cluster.Name, configured); err != nil {
		return figures, err
	}
	if _, err := scaleDeployment(ctx, hub, cluster.Name, deploymentName, opts.machines); err != nil {
		return figures, err
	}
	figures.Kind = kind.name
	if figures.AtRest, err = measureNode(ctx, opts, fleet); err != nil {
		return figures, err
	}
	if err := runPods(ctx, workload, opts.machines); err != nil {
		return figures, err
	}
	figures.WithPods, err = measureNode(ctx, opts, fleet)
	return figures, err
}

func measureNode(ctx context.Context, opts scaleOptions, fleet *upFleet) (cost, error) {
	sums, err := measureRest(ctx, opts.options, fleet.readUsage)
	return sums[sideNode].dividedBy(opts.machines), err
}

// runPods lets each node run podsOfEachNode pods, one of each DaemonSet, and waits until all are Ready.
func runPods(ctx context.Context, workload client.Client, nodes int) error {
	for i := range podsOfEachNode {
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s-%d", deploymentName, i)}}
		labels := map[string]string{"set": set.Name}
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		set.Spec.Template.Labels = labels
		set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/bench"}}
		if err := workload.Create(ctx, set); err != nil {
			return fmt.Errorf("creating pods: %w", err)
		}
	}
	ready := 0
	err := waitFor(ctx, func(ctx context.Context) bool {
		sets := &appsv1.DaemonSetList{}
		if err := workload.List(ctx, sets); err != nil {
			return false
		}
		ready = 0
		for i := range sets.Items {
			ready += int(sets.Items[i].Status.NumberReady)
		}
		return ready >= nodes*podsOfEachNode
	})
	if err != nil {
		return fmt.Errorf("waiting for %d pods, of which %d are Ready: %w", nodes*podsOfEachNode, ready, err)
	}
	return nil
}

func clientOf(kubeconfig string) (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme.New()})
	if err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", kubeconfig, err)
	}
	return c, nil
}

// kwokMachineFigures is what Machines of provider kwok take, all in one cluster.
type kwokMachineFigures struct {
	Machines int `json:"machines"`
	// Seconds is the time from the scale from 1 to all Ready on the hub, Fleet what everything takes then at rest.
	Seconds float64 `json:"seconds"`
	Fleet   cost    `json:"fleet"`
	// LateHeartbeats is how many Nodes had a Lease after the rest that was older than its duration, NotReady how many were not Ready.
	LateHeartbeats int `json:"lateHeartbeats"`
	NotReady       int `json:"notReady"`
}

// measureKwokMachines scales one cluster to opts.kwokMachines of provider kwok.
func measureKwokMachines(ctx context.Context, opts scaleOptions, fleet *upFleet) (*kwokMachineFigures, error) {
	hub, err := clientOf(fleet.report.Hub.Kubeconfig)
	if err != nil {
		return nil, err
	}
	cluster := fleet.report.Clusters[0]
	workload, err := clientOf(cluster.Kubeconfig)
	if err != nil {
		return nil, err
	}
	configured := opts.options
	configured.provider, configured.surge = v1alpha1.ProviderKwok, "1"
	if err := createEmpty(ctx, hub, cluster.Name, configured); err != nil {
		return nil, err
	}
	if _, err := scaleDeployment(ctx, hub, cluster.Name, deploymentName, 1); err != nil {
		return nil, err
	}
	figures := &kwokMachineFigures{Machines: opts.kwokMachines}
	if figures.Seconds, err = scaleDeployment(ctx, hub, cluster.Name, deploymentName, opts.kwokMachines); err != nil {
		return nil, err
	}
	sums, err := measureRest(ctx, opts.options, fleet.readUsage)
	if err != nil {
		return nil, err
	}
	figures.Fleet = sums[sideAll]
	figures.LateHeartbeats, figures.NotReady, err = countLate(ctx, workload, time.Now())
	return figures, err
}

// countLate counts the Nodes whose Lease is older than its duration, and those that are not Ready.
func countLate(ctx context.Context, workload client.Client, now time.Time) (late, notReady int, err error) {
	leases, nodes := &coordinationv1.LeaseList{}, &corev1.NodeList{}
	if err := workload.List(ctx, leases, client.InNamespace(corev1.NamespaceNodeLease)); err != nil {
		return 0, 0, fmt.Errorf("listing Leases: %w", err)
	}
	if err := workload.List(ctx, nodes); err != nil {
		return 0, 0, fmt.Errorf("listing Nodes: %w", err)
	}
	for i := range leases.Items {
		spec := leases.Items[i].Spec
		if spec.RenewTime == nil || spec.LeaseDurationSeconds == nil || now.Sub(spec.RenewTime.Time) > time.Duration(*spec.LeaseDurationSeconds)*time.Second {
			late++
		}
	}
	for i := range nodes.Items {
		if !isNodeReady(&nodes.Items[i]) {
			notReady++
		}
	}
	return late, notReady, nil
}

func isNodeReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// nodeLines are the lines of the row "nodes".
func nodeLines() (lines []scaleLine) {
	for _, kind := range nodeKinds {
		of := func(f scaleFigures) nodeFigures {
			for _, one := range f.Nodes {
				if one.Kind == kind.name {
					return one
				}
			}
			return nodeFigures{}
		}
		lines = append(
			lines,
			scaleLine{rowNodes, "node, " + kind.name + ": memory (private)", func(f scaleFigures) string { return of(f).AtRest.memory() }},
			scaleLine{rowNodes, "node, " + kind.name + ": CPU", func(f scaleFigures) string { return of(f).AtRest.cpu() }},
			scaleLine{rowNodes, fmt.Sprintf("node, %s, with %d pods: memory (private)", kind.name, podsOfEachNode), func(f scaleFigures) string { return of(f).WithPods.memory() }},
			scaleLine{rowNodes, fmt.Sprintf("node, %s, with %d pods: CPU", kind.name, podsOfEachNode), func(f scaleFigures) string { return of(f).WithPods.cpu() }},
		)
	}
	return lines
}

// kwokMachineLines are the lines of the row "kwok-machines".
func kwokMachineLines(opts scaleOptions) (lines []scaleLine) {
	for _, line := range []struct {
		title string
		value func(*kwokMachineFigures) string
	}{
		{"from 1 to all Ready", func(f *kwokMachineFigures) string { return seconds(f.Seconds) }},
		{"whole fleet: memory (private)", func(f *kwokMachineFigures) string { return f.Fleet.memory() }},
		{"whole fleet: CPU", func(f *kwokMachineFigures) string { return f.Fleet.cpu() }},
		{"heartbeats late, Nodes not Ready", func(f *kwokMachineFigures) string { return fmt.Sprintf("%d, %d", f.LateHeartbeats, f.NotReady) }},
	} {
		lines = append(lines, scaleLine{rowKwokMachines, fmt.Sprintf("%d Machines of kwok: %s", opts.kwokMachines, line.title), func(f scaleFigures) string {
			if f.KwokMachines == nil {
				return "-"
			}
			return line.value(f.KwokMachines)
		}})
	}
	return lines
}
