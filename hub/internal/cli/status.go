package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
)

// mostMachines is how many Machines are shown of those that are worst.
const mostMachines = 10

// NewStatus returns "status".
func NewStatus(hub *cmdutil.Hub) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show how the hub and all clusters are, and the worst Machines",
		Long: `Show whether the hub works, how many clusters, MachineDeployments and Machines are as they should be, the clusters that
are not ready, and the ten worst Machines: those that have failed, then those that are not ready, the longest first.

The exit code is 1 when the hub does not work, a cluster is not ready, or a Machine has failed.`,
		Example: `  kubectl hollow status`, Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := hub.Client()
			if err != nil {
				return err
			}
			seen, err := observe(command.Context(), c, time.Now())
			if err != nil {
				return err
			}
			return seen.show(hub)
		},
	}
}

// fleet is all that the status is made of.
type fleet struct {
	now         time.Time
	hub         hubState
	clusters    []v1alpha1.Cluster
	deployments []v1alpha1.MachineDeployment
	machines    []v1alpha1.Machine
}

func observe(ctx context.Context, c client.Client, now time.Time) (*fleet, error) {
	state, err := hubOf(ctx, c, now)
	if err != nil {
		return nil, err
	}
	clusters, deployments, machines := &v1alpha1.ClusterList{}, &v1alpha1.MachineDeploymentList{}, &v1alpha1.MachineList{}
	for what, list := range map[string]client.ObjectList{"clusters": clusters, "machinedeployments": deployments, "machines": machines} {
		if err := c.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing %s: %w", what, err)
		}
	}
	return &fleet{now: now, hub: state, clusters: clusters.Items, deployments: deployments.Items, machines: machines.Items}, nil
}

// show prints the fleet. The error counts what is wrong.
func (f *fleet) show(hub *cmdutil.Hub) error {
	summary := f.summarize()
	for _, line := range summary.lines {
		hub.Say("%s", line)
	}
	for _, table := range []*metav1.Table{summary.clusters, summary.machines} {
		if len(table.Rows) == 0 {
			continue
		}
		hub.Say("")
		if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, hub.Out); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	if len(summary.problems) > 0 {
		return fmt.Errorf("not all is well: %s", strings.Join(summary.problems, "; "))
	}
	return nil
}

// summary is what the status shows of a fleet.
type summary struct {
	lines              []string
	clusters, machines *metav1.Table
	problems           []string
}

func (f *fleet) summarize() summary {
	s := summary{
		clusters: &metav1.Table{ColumnDefinitions: cmdutil.Columns("Cluster", "Ready", "Since", "Message")},
		machines: &metav1.Table{ColumnDefinitions: cmdutil.Columns("Namespace", "Machine", "Phase", "Reason", "Since", "Message")},
	}
	f.summarizeHub(&s)
	f.summarizeClusters(&s)
	f.summarizeDeployments(&s)
	f.summarizeMachines(&s)
	return s
}

func (f *fleet) summarizeHub(s *summary) {
	if f.hub.problem != "" {
		s.problem("the hub does not work")
		s.line("Hub", "%s", f.hub.problem)
		return
	}
	s.line("Hub", "works: %s, version %s, Lease renewed %s ago", f.hub.holder, f.hub.version, duration.HumanDuration(f.hub.renewed))
}

func (f *fleet) summarizeClusters(s *summary) {
	slices.SortFunc(f.clusters, func(a, b v1alpha1.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	var ready, frozen, connected int
	for i := range f.clusters {
		cluster := &f.clusters[i]
		list := cluster.Status.Conditions
		frozen += count(meta.IsStatusConditionTrue(list, v1alpha1.FrozenCondition))
		connected += count(meta.IsStatusConditionTrue(list, v1alpha1.ClusterAgentConnectedCondition))
		condition := meta.FindStatusCondition(list, v1alpha1.ReadyCondition)
		if condition != nil && condition.Status == metav1.ConditionTrue {
			ready++
			continue
		}
		if condition == nil {
			condition = &metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending}
		}
		s.clusters.Rows = append(s.clusters.Rows, metav1.TableRow{Cells: []any{
			cluster.Name, fmt.Sprintf("%s (%s)", condition.Status, condition.Reason), f.since(condition), condition.Message,
		}})
	}
	s.line("Clusters", "%d: %d ready, %d with a connected agent, %d frozen", len(f.clusters), ready, connected, frozen)
	if wrong := len(f.clusters) - ready; wrong > 0 {
		s.problem("%d of %d clusters not ready", wrong, len(f.clusters))
	}
}

// summarizeDeployments also counts those whose spec the hub has not worked on: a hub that works needs a moment for one.
func (f *fleet) summarizeDeployments(s *summary) {
	var available, behind int
	for i := range f.deployments {
		deployment := &f.deployments[i]
		available += count(meta.IsStatusConditionTrue(deployment.Status.Conditions, v1alpha1.AvailableCondition))
		behind += count(deployment.Status.ObservedGeneration < deployment.Generation)
	}
	s.line("Deployments", "%d: %d available, %d that the hub has not worked on since their last change", len(f.deployments), available, behind)
}

func (f *fleet) summarizeMachines(s *summary) {
	var ready, failed, stale int
	var wrong []*v1alpha1.Machine
	for i := range f.machines {
		machine := &f.machines[i]
		isReady := meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition)
		ready += count(isReady)
		failed += count(hasFailed(machine))
		stale += count(meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.MachineStaleCondition))
		if !isReady {
			wrong = append(wrong, machine)
		}
	}
	s.line("Machines", "%d: %d ready, %d failed, %d stale (their agent is silent or does not reach its cluster)", len(f.machines), ready, failed, stale)
	if failed > 0 {
		s.problem("%d of %d Machines failed", failed, len(f.machines))
	}
	slices.SortFunc(wrong, worse)
	for _, machine := range wrong[:min(len(wrong), mostMachines)] {
		condition := readyOf(machine)
		s.machines.Rows = append(s.machines.Rows, metav1.TableRow{Cells: []any{
			machine.Namespace, machine.Name, string(machine.Status.Phase), condition.Reason, f.since(&condition), condition.Message,
		}})
	}
}

// worse sorts Machines that have failed before others, and then those that are not ready for longer first.
func worse(a, b *v1alpha1.Machine) int {
	if hasFailed(a) != hasFailed(b) {
		return count(hasFailed(b)) - count(hasFailed(a))
	}
	first, second := readyOf(a), readyOf(b)
	return cmp.Or(first.LastTransitionTime.Time.Compare(second.LastTransitionTime.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func hasFailed(machine *v1alpha1.Machine) bool { return machine.Status.Phase == v1alpha1.MachineFailed }

// readyOf is the condition Ready, or one that says that the agent has not written it.
func readyOf(machine *v1alpha1.Machine) metav1.Condition {
	if ready := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.ReadyCondition); ready != nil {
		return *ready
	}
	return metav1.Condition{Reason: v1alpha1.ReasonPending, LastTransitionTime: machine.CreationTimestamp}
}

func (f *fleet) since(condition *metav1.Condition) string {
	if condition.LastTransitionTime.Time.Year() < 2000 {
		return "-" // It is the default of the kind.
	}
	return duration.HumanDuration(max(f.now.Sub(condition.LastTransitionTime.Time), time.Duration(0)))
}

func (s *summary) line(what, format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf("%-13s%s", what+":", fmt.Sprintf(format, args...)))
}

func (s *summary) problem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

func count(holds bool) int {
	if holds {
		return 1
	}
	return 0
}
