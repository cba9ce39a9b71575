package plane

import (
	"context"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/etcdmember"
)

func runEtcd(ctx context.Context, run *Run) error {
	member, err := etcdmember.Start(run.component.Args, run.component.Log) //nolint:contextcheck // It ends by Close.
	if err != nil {
		return err
	}
	defer member.Close()
	run.setHealth(func(context.Context) error {
		if !member.IsReady() {
			return errStarting
		}
		return nil
	})
	return member.Wait(ctx)
}
