// Package cluster has the commands of "kubectl hollow cluster", and "kubectl hollow freeze" and "unfreeze".
package cluster

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
)

// NewCommand returns "cluster".
func NewCommand(hub *cmdutil.Hub) *cobra.Command {
	return cmdutil.Group(&cobra.Command{
		Use: "cluster", Aliases: []string{"clusters"}, Short: "List clusters, let them join, accept, deny, acknowledge and remove them",
	}, newList(hub), newJoin(hub), newAccept(hub), newDeny(hub), newAcknowledge(hub), newRemove(hub), newRemoveFinalizers(hub))
}

// get reads a Cluster. One that does not exist is an error that says what to do.
func get(ctx context.Context, c client.Client, name string) (*v1alpha1.Cluster, error) {
	cluster := &v1alpha1.Cluster{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return nil, cmdutil.NotFound("cluster %s does not exist: see kubectl hollow cluster list%s", name, cmdutil.DidYouMean(name, clusterNames(ctx, c)))
	}
	if err != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	return cluster, nil
}

// clusterNames are those of all Clusters; none if they cannot be listed, for they are wanted for a suggestion only.
func clusterNames(ctx context.Context, c client.Client) []string {
	list := &v1alpha1.ClusterList{}
	if err := c.List(ctx, list); err != nil {
		return nil
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}
