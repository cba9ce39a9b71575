package cmdutil

import (
	"time"

	"github.com/spf13/cobra"
)

// Change has the flags of a command that changes an object: how it prints the result, whether it only shows what it would do, and, for one
// that calls AddWait, whether it waits for the result.
type Change struct {
	Output *Output
	DryRun *DryRun
	Wait   Wait
}

// NewChange adds -o, which also takes the command's own formats, and --dry-run to command.
func NewChange(command *cobra.Command, own ...string) Change {
	return Change{Output: NewOutput(command, own...), DryRun: NewDryRun(command)}
}

// Waits reports whether the command waits for its result: a dry run has none.
func (c *Change) Waits() bool { return c.Wait.Enabled && !c.DryRun.Active() }

// Telling returns hub as the command tells of what it does.
func (c *Change) Telling(hub *Hub) *Hub { return c.DryRun.Telling(c.Output.Telling(hub)) }

// Wait says whether a command waits for its result, and for how long at most.
type Wait struct {
	Enabled bool
	// Timeout is the longest time to wait; 0 if there is no such bound.
	Timeout time.Duration
}

// AddWait adds --wait and --timeout to command, which waits until result. By default it waits if the command itself brings the result
// about within the timeout: a confirmation or a measurement. It does not if that is up to others: an agent that may not be started yet, or
// the machines of a fleet. Without a timeout, unbounded says what ends the waiting.
func AddWait(command *cobra.Command, wait *Wait, byDefault bool, result string, bound time.Duration, unbounded string) {
	usage := "wait until " + result
	if byDefault {
		usage += "; --wait=false returns immediately"
	}
	command.Flags().BoolVar(&wait.Enabled, "wait", byDefault, usage)
	limit := "longest time to wait"
	if bound == 0 {
		limit += " (default " + unbounded + ")"
	}
	command.Flags().DurationVar(&wait.Timeout, "timeout", bound, limit)
}
