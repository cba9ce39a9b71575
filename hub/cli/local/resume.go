//go:build linux

package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

// continueFleet continues with the fleet in the directory, and reports whether there is one to continue with: its keeper has ended without
// ending it, or the command that started it has ended before everything was there. Should that fail, nothing is removed.
func (o *upOptions) continueFleet(ctx context.Context) (bool, error) {
	start, err := localfleet.ContinueStart(o.dir)
	if errors.Is(err, localfleet.ErrStarting) {
		return false, cmdutil.Refusal("--dir: %w: wait until it is done, see %s, or end the fleet with %s", err, writtenCommand("status", o.dir), writtenCommand("down", o.dir))
	}
	if err != nil {
		return false, fmt.Errorf("--dir: %w", err)
	}
	state, err := localfleet.ReadState(o.dir)
	isKept := err == nil && state.Keeper != nil && state.Keeper.Alive()
	o.isHalfMade = start != nil && !isKept && !state.CameUp
	args := state.Resumable()
	if len(args) == 0 && (start == nil || !isKept) {
		return false, nil // There is none, or one that takeDirectory says more of.
	}
	if isKept && state.Keeper.IsSuspended() {
		return false, cmdutil.Refusal("--dir: the keeper of the fleet does not answer (its log: %s): let it continue with kill -CONT %d", localfleet.LogFile(o.dir, localfleet.KeeperName), state.Keeper.PID)
	}
	if changes := o.describeChanges(); changes != "" {
		fmt.Fprintf(o.hub.ErrOut, "Warning: the fleet is started again as it was%s\n", changes)
	}
	if err := o.finishFleet(ctx, state, args, start); err != nil {
		return true, fmt.Errorf("starting the fleet again, whose data stays in %s: %w", o.dir, err)
	}
	return true, o.printResult(ctx)
}

// finishFleet starts the keeper again with args, or follows the one that runs, and then makes what is missing of the start.
func (o *upOptions) finishFleet(ctx context.Context, state localfleet.State, args []string, start *localfleet.Start) error {
	clusters, machines := len(state.Clusters)+len(state.Hosted), 0
	if start != nil {
		o.clusters, o.workers, o.Heartbeats = start.Clusters, workers{start.Machines, start.KubeletVersions}, start.Heartbeats
		clusters, machines = max(clusters, start.Clusters), start.Machines
	}
	timeout := cmp.Or(o.timeout, defaultTimeout(clusters, machines))
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, cmdutil.Timeout("the fleet was not up after %s; its keeper still tries: see %s", timeout, writtenCommand("status", o.dir)))
	defer cancel()
	var keeper runningKeeper
	var err error
	if len(args) > 0 {
		keeper, err = o.resumeKeeper(ctx, args)
	} else {
		o.printf("The command that started the fleet in %s has ended before everything was there. Continuing", o.dir)
		keeper = findKeeper(ctx, o.dir, *state.Keeper)
		err = followKeeper(ctx, keeper, o.dir, 0, o.progress)
	}
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	kept, release := whileKept(ctx, keeper)
	defer release()
	if err := o.makeMissing(kept, start); err != nil {
		return cmp.Or(context.Cause(kept), err)
	}
	return nil
}

// makeMissing waits for the control planes that the keeper has run before, and makes what is missing of what the fleet was to start with.
func (o *upOptions) makeMissing(ctx context.Context, start *localfleet.Start) error {
	if err := o.awaitHosted(ctx); err != nil || start == nil {
		return err
	}
	if err := o.createMachines(ctx); err != nil {
		return err
	}
	return start.Finish()
}

// resumeKeeper starts the keeper of a fleet again that has ended.
func (o *upOptions) resumeKeeper(ctx context.Context, args []string) (runningKeeper, error) {
	o.printf("The keeper of the fleet in %s has ended, and so have its programs. Starting them again, as they were", o.dir)
	offset := int64(0)
	if info, err := os.Stat(localfleet.LogFile(o.dir, localfleet.KeeperName)); err == nil {
		offset = info.Size()
	}
	started, err := o.startDetached(append(slices.Clone(args), "--"+resumeFlag))
	if err != nil {
		return runningKeeper{}, err
	}
	// A keeper that was told to end would remove a fleet that has just come up.
	keeper := keeperOf(started)
	return keeper, followKeeper(ctx, keeper, o.dir, offset, o.progress)
}

// removeHalfMade removes what is left of a start that was interrupted before the fleet was up: there is nothing of a user in it.
func (o *upOptions) removeHalfMade(ctx context.Context) error {
	if !o.isHalfMade {
		return nil
	}
	o.printf("Removing what is left of a start that was interrupted before the fleet in %s was up", o.dir)
	left, err := localfleet.Down(ctx, o.dir)
	sayLeft(o.printf, left)
	if err != nil && !errors.Is(err, localfleet.ErrNoFleet) {
		return fmt.Errorf("removing what is left of a start: %w: remove it with %s", err, writtenCommand("down", o.dir))
	}
	return nil
}

// runningKeeper is a keeper that this command or another has started.
type runningKeeper struct {
	pid     int
	logFile string
	done    <-chan struct{}
}

func keeperOf(started *process.Process) runningKeeper {
	return runningKeeper{started.PID(), started.LogFile(), started.Done()}
}

// findKeeper is a keeper that another command has started. It is watched until ctx ends.
func findKeeper(ctx context.Context, dir string, identity process.Identity) runningKeeper {
	done := make(chan struct{})
	go func() {
		if identity.WaitGone(ctx, followPoll) == nil {
			close(done)
		}
	}()
	return runningKeeper{identity.PID, localfleet.LogFile(dir, localfleet.KeeperName), done}
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
