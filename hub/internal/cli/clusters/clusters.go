// Package clusters has the commands of "kubectl hollow cluster".
package clusters

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

// NewCommand returns "cluster".
func NewCommand(hub *kube.Hub) *cobra.Command {
	return kube.Group(&cobra.Command{
		Use: "cluster", Aliases: []string{"clusters"}, Short: "List clusters, let them join, accept, deny, acknowledge and remove them",
	}, newList(hub), newJoin(hub), newAccept(hub), newDeny(hub), newAcknowledge(hub), newRemove(hub))
}

// get reads a Cluster. One that does not exist is an error that says what to do.
func get(ctx context.Context, c client.Client, name string) (*v1alpha1.Cluster, error) {
	cluster := &v1alpha1.Cluster{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return nil, exit.NotFound("cluster %s does not exist: see kubectl hollow cluster list", name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	return cluster, nil
}
