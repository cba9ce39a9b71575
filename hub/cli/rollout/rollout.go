// Package rollout has the commands of "kubectl hollow rollout".
package rollout

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// NewCommand returns "rollout".
func NewCommand(hub *cmdutil.Hub) *cobra.Command {
	return cmdutil.Group(&cobra.Command{
		Use: "rollout", Short: "Follow, pause, resume, approve, abort, retry and undo rollouts of MachineFleets and MachineDeployments",
	}, newStatus(hub), newHistory(hub), newUndo(hub), newPause(hub), newResume(hub), newApprove(hub), newAbort(hub), newRetry(hub))
}

// subject is what a command is about: a MachineDeployment, a MachineFleet or a SimulatedClusterSet.
type subject struct {
	hub        *cmdutil.Hub
	client     client.WithWatch
	deployment *v1alpha1.MachineDeployment
	fleet      *v1alpha1.MachineFleet
	set        *v1alpha1.SimulatedClusterSet
}

// both are the kinds that roll Machines out. all have the control planes too, and waving are those with waves of clusters.
var (
	both   = []cmdutil.Kind{cmdutil.FleetKind, cmdutil.DeploymentKind}
	all    = []cmdutil.Kind{cmdutil.FleetKind, cmdutil.DeploymentKind, cmdutil.SimulatedSetKind}
	waving = []cmdutil.Kind{cmdutil.FleetKind, cmdutil.SimulatedSetKind}
)

// newCommand fills in what the commands have in common. kinds are those of which it takes one object.
func newCommand(hub *cmdutil.Hub, template *cobra.Command, kinds []cmdutil.Kind, connect func() (client.WithWatch, error), run func(context.Context, *subject) error) *cobra.Command {
	var names []string
	for _, kind := range kinds {
		names = append(names, string(kind))
	}
	template.Use += " " + strings.Join(names, "|") + " NAME"
	template.ValidArgsFunction = hub.CompleteObjects(kinds...)
	template.RunE = func(command *cobra.Command, args []string) error {
		s, err := findSubject(command.Context(), hub, kinds, connect, command, args)
		if err != nil {
			return err
		}
		return run(command.Context(), s)
	}
	return template
}

// findSubject reads the object that args name.
func findSubject(ctx context.Context, hub *cmdutil.Hub, kinds []cmdutil.Kind, connect func() (client.WithWatch, error), command *cobra.Command, args []string) (*subject, error) {
	if err := refuseMachineSets(command, args); err != nil {
		return nil, err
	}
	kind, name, err := cmdutil.Object(command, args, kinds...)
	if err != nil {
		return nil, err
	}
	c, err := connect()
	if err != nil {
		return nil, err
	}
	s, namespace := &subject{hub: hub, client: c}, ""
	switch kind {
	case cmdutil.FleetKind:
		s.fleet = &v1alpha1.MachineFleet{}
	case cmdutil.SimulatedSetKind:
		s.set = &v1alpha1.SimulatedClusterSet{}
	default:
		s.deployment = &v1alpha1.MachineDeployment{}
		if namespace, err = hub.Namespace(); err != nil {
			return nil, err
		}
	}
	return s, cmdutil.Get(ctx, c, kind, client.ObjectKey{Namespace: namespace, Name: name}, s.clientObject())
}

func (s *subject) clientObject() client.Object {
	switch {
	case s.fleet != nil:
		return s.fleet
	case s.set != nil:
		return s.set
	}
	return s.deployment
}

// kindOf is how commands name the object's kind.
func (s *subject) kindOf() cmdutil.Kind {
	switch {
	case s.fleet != nil:
		return cmdutil.FleetKind
	case s.set != nil:
		return cmdutil.SimulatedSetKind
	}
	return cmdutil.DeploymentKind
}

// fullName is kind and name, as messages have it.
func (s *subject) fullName() string { return string(s.kindOf()) + " " + s.clientObject().GetName() }

// commandArguments are the object's on a command line.
func (s *subject) commandArguments() string {
	if s.deployment == nil {
		return s.fullName()
	}
	return s.fullName() + " -n " + s.deployment.Namespace
}

// newReportingCommand is a command that tells of the object, when it is done, what the format asks for. run returns facts beside
// those of the object.
func newReportingCommand(hub *cmdutil.Hub, template *cobra.Command, kinds []cmdutil.Kind, run func(context.Context, *subject) ([]cmdutil.Fact, error)) *cobra.Command {
	var output *cmdutil.Output
	c := newCommand(hub, template, kinds, hub.Client, func(ctx context.Context, s *subject) error {
		return s.report(ctx, hub, output.Telling(hub), output, run)
	})
	output = cmdutil.NewOutput(c)
	return c
}

// newChangingCommand is reporting for a command that changes the object, with --dry-run.
func newChangingCommand(hub *cmdutil.Hub, template *cobra.Command, kinds []cmdutil.Kind, run func(context.Context, *subject) ([]cmdutil.Fact, error)) *cobra.Command {
	var change cmdutil.Change
	c := newCommand(hub, template, kinds, func() (client.WithWatch, error) { return change.DryRun.Client(hub) }, func(ctx context.Context, s *subject) error {
		return s.report(ctx, hub, change.Telling(hub), change.Output, run)
	})
	change = cmdutil.NewChange(c)
	return c
}

// report runs a command, which tells what it does through telling, and prints the result.
func (s *subject) report(ctx context.Context, hub, telling *cmdutil.Hub, output *cmdutil.Output, run func(context.Context, *subject) ([]cmdutil.Fact, error)) error {
	if err := output.Check(); err != nil {
		return err
	}
	s.hub = telling
	facts, err := run(ctx, s)
	if err != nil {
		return err
	}
	return output.Result(hub, s.clientObject(), append(facts, s.listFacts()...)...)
}

// listFacts are what to know of the object.
func (s *subject) listFacts() []cmdutil.Fact {
	switch {
	case s.fleet != nil:
		return fleetFacts(s.fleet)
	case s.set != nil:
		return setFacts(s.set)
	}
	spec, status := &s.deployment.Spec, &s.deployment.Status
	revision := ""
	if current := s.currentRevision(); current > 0 {
		revision = fmt.Sprint(current)
	}
	return []cmdutil.Fact{
		{Name: "Namespace", Value: s.deployment.Namespace},
		{Name: "Revision", Value: revision},
		{Name: "Strategy", Value: string(spec.Strategy.Type)},
		{Name: "Kubelet", Value: spec.Template.Spec.Versions.Kubelet},
		{Name: "Paused", Value: fmt.Sprint(spec.Paused)},
		{Name: "Machines", Value: fmt.Sprintf("%d, of which %d updated, %d ready, %d available",
			status.Replicas, status.UpdatedReplicas, status.ReadyReplicas, status.AvailableReplicas)},
	}
}

// printf reports on the object.
func (s *subject) printf(format string, args ...any) {
	s.hub.Say("%s", s.lineOf(format, args...))
}

// lineOf is a report on the object.
func (s *subject) lineOf(format string, args ...any) string {
	return fmt.Sprintf("%s.hollowfleet.io/%s %s", s.kindOf(), s.clientObject().GetName(), fmt.Sprintf(format, args...))
}

// changeObject lets apply change the object, and writes that, unless another client has changed the object meanwhile.
func (s *subject) changeObject(ctx context.Context, apply func()) error {
	before, ok := s.clientObject().DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("changing %s: %T is not an object", s.fullName(), before)
	}
	apply()
	if err := s.client.Patch(ctx, s.clientObject(), reconciler.MergeFromWithLock(before)); err != nil {
		if ctx.Err() != nil {
			s.hub.Note("Whether the hub has applied the change is unknown. To check: kubectl hollow rollout status %s --watch=false", s.commandArguments())
		}
		return fmt.Errorf("changing %s: %w", s.fullName(), err)
	}
	return nil
}
