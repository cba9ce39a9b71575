// Package rollout has the commands of "kubectl hollow rollout".
package rollout

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/exit"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/kube"
)

// NewCommand returns "rollout".
func NewCommand(hub *kube.Hub) *cobra.Command {
	return kube.Group(&cobra.Command{
		Use: "rollout", Short: "Follow, pause, resume and undo rollouts of MachineDeployments",
	}, newStatus(hub), newHistory(hub), newUndo(hub), newPause(hub), newResume(hub))
}

// subject is the MachineDeployment that a command is about.
type subject struct {
	hub        *kube.Hub
	client     client.WithWatch
	deployment *v1alpha1.MachineDeployment
}

// command fills in what the commands have in common.
func command(hub *kube.Hub, template *cobra.Command, run func(context.Context, *subject) error) *cobra.Command {
	template.Use += " machinedeployment NAME"
	template.ValidArgsFunction = hub.CompleteObjects(kube.DeploymentKind)
	template.RunE = func(command *cobra.Command, args []string) error {
		_, name, err := kube.Object(command, args, kube.DeploymentKind)
		if err != nil {
			return err
		}
		namespace, err := hub.Namespace()
		if err != nil {
			return err
		}
		c, err := hub.Client()
		if err != nil {
			return err
		}
		s := &subject{hub: hub, client: c, deployment: &v1alpha1.MachineDeployment{}}
		err = c.Get(command.Context(), client.ObjectKey{Namespace: namespace, Name: name}, s.deployment)
		if apierrors.IsNotFound(err) {
			return exit.NotFound("machinedeployment %s does not exist%s", name, kube.InNamespace(namespace))
		}
		if err != nil {
			return fmt.Errorf("reading MachineDeployment %s: %w", name, err)
		}
		return run(command.Context(), s)
	}
	return template
}

// reporting is a command that tells of the deployment, when it is done, what the format asks for. run returns facts beside
// those of the deployment.
func reporting(hub *kube.Hub, template *cobra.Command, run func(context.Context, *subject) ([]kube.Fact, error)) *cobra.Command {
	var output *kube.Output
	c := command(hub, template, func(ctx context.Context, s *subject) error {
		if err := output.Check(); err != nil {
			return err
		}
		s.hub = output.Telling(hub)
		facts, err := run(ctx, s)
		if err != nil {
			return err
		}
		return output.Result(hub, s.deployment, append(facts, s.facts()...)...)
	})
	output = kube.NewOutput(c)
	return c
}

// facts are what to know of the deployment.
func (s *subject) facts() []kube.Fact {
	spec, status := &s.deployment.Spec, &s.deployment.Status
	revision := ""
	if current := s.current(); current > 0 {
		revision = fmt.Sprint(current)
	}
	return []kube.Fact{
		{Name: "Namespace", Value: s.deployment.Namespace},
		{Name: "Revision", Value: revision},
		{Name: "Strategy", Value: string(spec.Strategy.Type)},
		{Name: "Kubelet", Value: spec.Template.Spec.Versions.Kubelet},
		{Name: "Paused", Value: fmt.Sprint(spec.Paused)},
		{Name: "Machines", Value: fmt.Sprintf("%d, of which %d updated, %d ready, %d available",
			status.Replicas, status.UpdatedReplicas, status.ReadyReplicas, status.AvailableReplicas)},
	}
}

// say reports on the deployment.
func (s *subject) say(format string, args ...any) {
	s.hub.Say("machinedeployment.hollowfleet.io/%s %s", s.deployment.Name, fmt.Sprintf(format, args...))
}

// patch writes what has changed since before, unless somebody else has changed the deployment meanwhile.
func (s *subject) patch(ctx context.Context, before *v1alpha1.MachineDeployment) error {
	if err := s.client.Patch(ctx, s.deployment, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("changing MachineDeployment %s: %w", s.deployment.Name, err)
	}
	return nil
}
