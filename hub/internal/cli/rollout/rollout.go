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
