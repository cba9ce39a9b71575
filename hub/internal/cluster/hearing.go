package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// An agent that counts as heard lets this process create and delete for its cluster. What the agent has to say about
// that, such as that this hub was restored from a backup, it writes on the Cluster before it renews its Lease. But
// here the two come from different caches, and the other controllers go by a condition that this one writes. So after
// the renewal the Cluster is read once more, from the API server: the agent is heard when the cache has that version
// and there is nothing left to write about it.

// unheard tells whether the agent of cluster has renewed its Lease and does not count as heard yet.
func (c *Controller) unheard(cluster string) bool {
	return c.heartbeats.renewed(cluster) && !c.Agents.Heard(cluster)
}

// hear lets the agent of cluster count as heard, if cluster is what the API server has. If not, a newer one comes
// with an event.
func (c *Controller) hear(ctx context.Context, cluster *v1alpha1.Cluster) error {
	if !c.unheard(cluster.Name) {
		return nil
	}
	live := &v1alpha1.Cluster{}
	err := c.Live.Get(ctx, client.ObjectKeyFromObject(cluster), live)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading what the agent has written: %w", err)
	}
	if live.ResourceVersion == cluster.ResourceVersion {
		c.Agents.Hear(cluster.Name)
	}
	return nil
}
