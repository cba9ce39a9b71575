//go:build linux

package local

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

// resumeFleet starts a fleet again whose keeper has ended without ending it, and reports whether there is one. Should that fail, nothing is
// removed.
func (o *upOptions) resumeFleet(ctx context.Context) (bool, error) {
	state, err := localfleet.ReadState(o.dir)
	if err != nil {
		return false, nil // There is none, or one that takeDirectory says more of.
	}
	args := state.Resumable()
	if len(args) == 0 {
		return false, nil
	}
	timeout := cmp.Or(o.timeout, defaultTimeout(len(state.Clusters)+len(state.Hosted), 0))
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, cmdutil.Timeout("the fleet was not up again after %s; its keeper still tries: see %s", timeout, writtenCommand("status", o.dir)))
	defer cancel()
	o.printf("The keeper of the fleet in %s has ended, and so have its programs. Starting them again, as they were", o.dir)
	offset := int64(0)
	if info, err := os.Stat(localfleet.LogFile(o.dir, localfleet.KeeperName)); err == nil {
		offset = info.Size()
	}
	keeper, err := o.startDetached(append(slices.Clone(args), "--"+resumeFlag))
	if err != nil {
		return true, err
	}
	if err := followKeeper(ctx, keeper, o.dir, offset, o.progress); err != nil {
		// A keeper that was told to end would remove a fleet that has just come up.
		return true, fmt.Errorf("starting the fleet again, whose data stays in %s: %w", o.dir, cmp.Or(context.Cause(ctx), err))
	}
	if err := o.awaitHosted(ctx); err != nil {
		return true, err
	}
	return true, o.printResult(ctx)
}

// awaitHosted waits until the control planes of the clusters that the host has run are ready. The keeper continues without this command.
func (o *upOptions) awaitHosted(ctx context.Context) error {
	seen := map[string]bool{}
	ticker := time.NewTicker(followPoll)
	defer ticker.Stop()
	for {
		report, err := localfleet.ReadReport(o.dir)
		if err != nil {
			return err
		}
		missing := ""
		for _, plane := range report.Clusters {
			switch {
			case plane.UID == "" || plane.Removing || seen[plane.Name]:
			case plane.Kubeconfig == "":
				missing = plane.Name
			default:
				seen[plane.Name] = true
				o.printf("  %s: control plane ready", plane.Name)
			}
		}
		if missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the control plane of %s (log: %s): %w", missing, localfleet.LogFile(o.dir, localfleet.KeeperName), context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
