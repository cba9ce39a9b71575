package cmdutil

import "github.com/spf13/cobra"

// KeepOldFlag keeps a flag that has another name now: it works, is not in the help, and says what to write in its place. A new name that
// is a flag of command too gets the old one's values.
func KeepOldFlag(command *cobra.Command, before, now string) {
	flags := command.Flags()
	if renamed := flags.Lookup(now); renamed != nil {
		flags.Var(renamed.Value, before, renamed.Usage)
	}
	_ = flags.MarkDeprecated(before, "use --"+now) // It hides it too; the only error is a flag that there is not.
}
