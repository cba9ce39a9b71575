package cmdutil

import (
	"time"

	"github.com/spf13/cobra"
)

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
