package plane

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// errElection is why a component does not start.
var errElection = errors.New("leader election ends the process of who loses it, so it needs a process of its own")

// runScheduler does what app.Run does without a port and without leader election. Where that registers the configuration for
// /configz, each process has room for one.
func runScheduler(ctx context.Context, run *Run) error {
	scheduler := options.NewOptions()
	if err := parseFlags(*scheduler.Flags, run.component.Args); err != nil {
		return err
	}
	name, err := cache.NewInformerName(run.label)
	if err != nil {
		return fmt.Errorf("naming informers: %w", err)
	}
	defer name.Release()
	scheduler.InformerName = name
	config, instance, err := app.Setup(ctx, scheduler)
	if err != nil {
		return err
	}
	if config.LeaderElection != nil {
		return errElection
	}
	config.EventBroadcaster.StartRecordingToSink(ctx.Done())
	defer config.EventBroadcaster.Shutdown()
	config.InformerFactory.StartWithContext(ctx)
	defer config.InformerFactory.Shutdown()
	config.DynInformerFactory.Start(ctx.Done())
	defer config.DynInformerFactory.Shutdown()
	config.InformerFactory.WaitForCacheSync(ctx.Done())
	config.DynInformerFactory.WaitForCacheSync(ctx.Done())
	if err := instance.WaitForHandlersSync(ctx); err != nil {
		return fmt.Errorf("waiting for the first objects: %w", err)
	}
	run.setHealth(func(context.Context) error { return nil })
	instance.Run(ctx)
	return errors.New("it ended by itself")
}
