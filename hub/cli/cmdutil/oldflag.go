package cmdutil

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// KeepOldFlag keeps a flag that has another name now: it works, is not in the help, and says on standard error what to write in its place.
// If now is a flag of command, it gets the old one's values.
func KeepOldFlag(command *cobra.Command, before, now string) {
	flags := command.Flags()
	if renamed := flags.Lookup(now); renamed != nil {
		flags.Var(renamed.Value, before, renamed.Usage)
	}
	old := flags.Lookup(before)
	old.Hidden = true
	old.Value = &oldFlag{Value: old.Value, command: command, before: before, now: now}
}

// oldFlag is the value of a flag that has another name now.
type oldFlag struct {
	pflag.Value

	command     *cobra.Command
	before, now string
}

// Set implements pflag.Value.
func (f *oldFlag) Set(text string) error {
	fmt.Fprintf(f.command.ErrOrStderr(), "--%s is deprecated: use --%s\n", f.before, f.now)
	return f.Value.Set(text)
}
