package cmdutil

import (
	"time"

	"github.com/spf13/cobra"
)

// AddWait adds --wait and --timeout to command, which waits until result. By default it waits if the command itself brings the result
// about within the timeout: a confirmation or a measurement. It does not if that is up to others: an agent that may not be started yet, or
// the machines of a fleet. Without a timeout, unbounded says what ends the waiting.
func AddWait(command *cobra.Command, wait *bool, timeout *time.Duration, byDefault bool, result string, bound time.Duration, unbounded string) {
	usage := "wait until " + result
	if byDefault {
		usage += "; --wait=false returns immediately"
	}
	command.Flags().BoolVar(wait, "wait", byDefault, usage)
	limit := "longest time to wait"
	if bound == 0 {
		limit += " (default " + unbounded + ")"
	}
	command.Flags().DurationVar(timeout, "timeout", bound, limit)
}
