// Command demo runs a fleet on this machine, takes it through the life of a few Machines, and prints a table
// of what the API servers said. make demo calls it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// errPromiseBroken says that a check of an act does not hold.
var errPromiseBroken = errors.New("a promise was not kept")

func main() {
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(os.Stdout).ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	message, code := verdict(err, interrupted)
	if message != "" {
		fmt.Fprintln(os.Stderr, message)
	}
	os.Exit(code)
}

// verdict is the last word on standard error, and the exit status.
func verdict(err error, interrupted bool) (message string, code int) {
	switch {
	case err == nil:
		return "", 0
	case interrupted:
		if rest := besidesInterruption(err); rest != nil {
			return "interrupted; error: " + rest.Error(), exitInterrupted
		}
		return "interrupted; everything that was started has been ended", exitInterrupted
	case errors.As(err, new(usageError)):
		return "error: " + err.Error(), exitUsage
	default:
		return "error: " + err.Error(), exitFailed
	}
}

// besidesInterruption returns what err holds that does not come from an interruption, such as a fleet that did not end.
func besidesInterruption(err error) error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		var rest []error
		for _, one := range joined.Unwrap() {
			rest = append(rest, besidesInterruption(one))
		}
		return errors.Join(rest...)
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// usageError is a command line that cannot be used.
type usageError struct{ error }

type options struct {
	binDir  string
	keep    bool
	verbose bool
	timeout time.Duration
	out     io.Writer
}

func command(out io.Writer) *cobra.Command {
	opts := options{out: out}
	root := &cobra.Command{
		Use:   "demo",
		Short: "Show five promises of Hollowfleet on a fleet on this machine, and check them",
		Long: `Run a hub, three simulated workload clusters and an agent for each as local processes. In five acts,
each with a promise, nodes come up, die, freeze, are upgraded and loaded. What the API servers say decides
whether a promise was kept.

Exit status: 0 every promise was kept, 1 one was not or something failed, 2 bad usage, 130 interrupted.`,
		Example: `  # Run it and clean up
  demo

  # Show every check, and what the plugin says meanwhile
  demo -v

  # Leave the fleet running and print how to use it; end it with: demo down
  demo --keep`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), opts) },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	defaultBin, _ := testenv.BinDir() // No default then; starting a program says what is missing.
	root.PersistentFlags().StringVar(&opts.binDir, "bin-dir", defaultBin, "directory with the built programs")
	root.Flags().BoolVar(&opts.keep, "keep", false, "leave the fleet running at the end")
	root.Flags().BoolVarP(&opts.verbose, "verbose", "v", false, "show every check, and what the plugin says meanwhile")
	root.Flags().DurationVar(&opts.timeout, "timeout", 12*time.Minute, "give up after this time")
	root.AddCommand(&cobra.Command{
		Use:          "down",
		Short:        "End the fleet that demo --keep left, and what an interrupted demo left",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         func(cmd *cobra.Command, _ []string) error { return runDown(cmd.Context(), opts) },
	})
	return root
}
