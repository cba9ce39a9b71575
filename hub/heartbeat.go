package hub

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/hollowfleet/hollowfleet/hub/internal/leader"
)

// heartbeatRetry is how soon the hub tries again to renew a Lease that it could not renew, or that another hub has taken.
const heartbeatRetry = 2 * time.Second

// prepareLease makes the namespace of the Lease before the election, or lets a hub that works without one renew the Lease.
func prepareLease(ctx context.Context, hub manager.Manager, options Options, lease *leader.Lease) error {
	if options.NoLeaderElection {
		return addHeartbeat(hub, options, lease)
	}
	return ensureNamespace(ctx, options)
}

// addHeartbeat lets a hub that works without being elected renew the Lease: whoever waits for a hub reads there whether one works. If it
// cannot, it works all the same.
func addHeartbeat(hub manager.Manager, options Options, lease *leader.Lease) error {
	renew := manager.RunnableFunc(func(ctx context.Context) error {
		logger := hub.GetLogger().WithName("heartbeat")
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			err := ensureNamespace(ctx, options)
			if err == nil {
				err = lease.Renew(ctx)
			}
			if err != nil && ctx.Err() == nil {
				logger.Error(err, "Trying again to renew the hub's Lease")
			}
		}, heartbeatRetry)
		return nil
	})
	if err := hub.Add(renew); err != nil {
		return fmt.Errorf("adding the renewal of the hub's Lease: %w", err)
	}
	return nil
}
