package local

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

const (
	ownerFlag = "while-pid"
	// ownerGlance is how often to look whether the owner of a fleet runs still.
	ownerGlance = 200 * time.Millisecond
)

func addOwner(command *cobra.Command, pid *int) {
	command.Flags().IntVar(pid, ownerFlag, 0, `end the fleet, and remove its files, when the process with this ID ends (default: it stays until "local down")`)
}

func addAgentArgs(command *cobra.Command, args *[]string) {
	command.Flags().StringArrayVar(args, "agent-arg", nil, "argument to add to the command line of each agent, such as --agent-arg=--freeze-after=6s; may be given several times")
}

// ownerOf is the process that a fleet is for; nil if the fleet is to stay.
func ownerOf(pid int) (*process.Identity, error) {
	if pid == 0 {
		return nil, nil
	}
	owner, err := process.Of("owner", pid)
	if err != nil {
		return nil, cmdutil.Usage("--%s: %w", ownerFlag, err)
	}
	return &owner, nil
}

// whileRuns returns a context that ends with ctx, and with owner if there is one.
func whileRuns(ctx context.Context, owner *process.Identity) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if owner != nil {
		go func() {
			if owner.WaitGone(ctx, ownerGlance) == nil {
				cancel(fmt.Errorf("process %d, which the fleet is for, has ended", owner.PID))
			}
		}()
	}
	return ctx, func() { cancel(context.Canceled) }
}
