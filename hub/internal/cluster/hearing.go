package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// An agent that counts as heard lets this process create and delete for its cluster. What the agent has to say about
// that, such as that it is frozen or that this hub was restored from a backup, it writes on the Cluster before it renews
// its Lease. But here the two come from different caches, and the other controllers go by a condition that this one
// writes. So after the renewal the Cluster is read once more, from the API server: the agent is heard when the cache has
// that version and there is nothing left to write about it. An agent that falls silent has to be heard anew.

// arrived tells whether cluster, as the cache has it, holds all that its agent has written before it renewed its Lease, if
// it has. If not, a newer one comes with an event.
func (c *Controller) arrived(ctx context.Context, cluster *v1alpha1.Cluster, renewed bool) (bool, error) {
	if !renewed || c.Agents.Heard(cluster.Name) {
		return true, nil
	}
	live := &v1alpha1.Cluster{}
	err := c.Live.Get(ctx, client.ObjectKeyFromObject(cluster), live)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading what the agent has written: %w", err)
	}
	return live.ResourceVersion == cluster.ResourceVersion, nil
}
