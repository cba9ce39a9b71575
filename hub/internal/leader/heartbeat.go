package leader

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/leaderelection"
)

// The times of the Lease, which are those of controller-runtime's elections.
const (
	leaseDuration, renewDeadline, retryPeriod = 15 * time.Second, 10 * time.Second, 2 * time.Second
)

// Renew takes the Lease as soon as no other hub renews it, and renews it until ctx ends or another has it.
func (l *Lease) Renew(ctx context.Context) error {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l.Lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return fmt.Errorf("setting the renewal of the hub's Lease up: %w", err)
	}
	elector.Run(ctx)
	return nil
}
