// Package rollout has the commands of "kubectl hollow rollout".
package rollout

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// NewCommand returns "rollout".
func NewCommand(hub *cmdutil.Hub) *cobra.Command {
	return cmdutil.Group(&cobra.Command{
		Use: "rollout", Short: "Follow, pause, resume and undo rollouts of MachineDeployments",
	}, newStatus(hub), newHistory(hub), newUndo(hub), newPause(hub), newResume(hub))
}

// subject is the MachineDeployment that a command is about.
type subject struct {
	hub        *cmdutil.Hub
	client     client.WithWatch
	deployment *v1alpha1.MachineDeployment
}

// command fills in what the commands have in common.
func command(hub *cmdutil.Hub, template *cobra.Command, connect func() (client.WithWatch, error), run func(context.Context, *subject) error) *cobra.Command {
	template.Use += " machinedeployment NAME"
	template.ValidArgsFunction = hub.CompleteObjects(cmdutil.DeploymentKind)
	template.RunE = func(command *cobra.Command, args []string) error {
		s, err := find(command.Context(), hub, connect, command, args)
		if err != nil {
			return err
		}
		return run(command.Context(), s)
	}
	return template
}

// find reads the MachineDeployment that args name.
func find(ctx context.Context, hub *cmdutil.Hub, connect func() (client.WithWatch, error), command *cobra.Command, args []string) (*subject, error) {
	_, name, err := cmdutil.Object(command, args, cmdutil.DeploymentKind)
	if err != nil {
		return nil, err
	}
	namespace, err := hub.Namespace()
	if err != nil {
		return nil, err
	}
	c, err := connect()
	if err != nil {
		return nil, err
	}
	s := &subject{hub: hub, client: c, deployment: &v1alpha1.MachineDeployment{}}
	err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, s.deployment)
	if apierrors.IsNotFound(err) {
		return nil, cmdutil.NotFound("machinedeployment %s does not exist%s", name, cmdutil.InNamespace(namespace))
	}
	if err != nil {
		return nil, fmt.Errorf("reading MachineDeployment %s: %w", name, err)
	}
	return s, nil
}

// reporting is a command that tells of the deployment, when it is done, what the format asks for. run returns facts beside
// those of the deployment.
func reporting(hub *cmdutil.Hub, template *cobra.Command, run func(context.Context, *subject) ([]cmdutil.Fact, error)) *cobra.Command {
	var output *cmdutil.Output
	c := command(hub, template, hub.Client, func(ctx context.Context, s *subject) error {
		return s.report(ctx, hub, hub, output, run)
	})
	output = cmdutil.NewOutput(c)
	return c
}

// changing is reporting for a command that changes the deployment, with --dry-run.
func changing(hub *cmdutil.Hub, template *cobra.Command, run func(context.Context, *subject) ([]cmdutil.Fact, error)) *cobra.Command {
	var (
		output *cmdutil.Output
		dryRun *cmdutil.DryRun
	)
	c := command(hub, template, func() (client.WithWatch, error) { return dryRun.Client(hub) }, func(ctx context.Context, s *subject) error {
		return s.report(ctx, hub, dryRun.Telling(hub), output, run)
	})
	output, dryRun = cmdutil.NewOutput(c), cmdutil.NewDryRun(c)
	return c
}

// report runs a command, which tells what it does through telling, and prints the result.
func (s *subject) report(ctx context.Context, hub, telling *cmdutil.Hub, output *cmdutil.Output, run func(context.Context, *subject) ([]cmdutil.Fact, error)) error {
	if err := output.Check(); err != nil {
		return err
	}
	s.hub = output.Telling(telling)
	facts, err := run(ctx, s)
	if err != nil {
		return err
	}
	return output.Result(hub, s.deployment, append(facts, s.facts()...)...)
}

// facts are what to know of the deployment.
func (s *subject) facts() []cmdutil.Fact {
	spec, status := &s.deployment.Spec, &s.deployment.Status
	revision := ""
	if current := s.current(); current > 0 {
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

// printf reports on the deployment.
func (s *subject) printf(format string, args ...any) {
	s.hub.Say("machinedeployment.hollowfleet.io/%s %s", s.deployment.Name, fmt.Sprintf(format, args...))
}

// patch writes what has changed since before, unless another client has changed the deployment meanwhile.
func (s *subject) patch(ctx context.Context, before *v1alpha1.MachineDeployment) error {
	if err := s.client.Patch(ctx, s.deployment, reconciler.MergeFromWithLock(before)); err != nil {
		return fmt.Errorf("changing MachineDeployment %s: %w", s.deployment.Name, err)
	}
	return nil
}
