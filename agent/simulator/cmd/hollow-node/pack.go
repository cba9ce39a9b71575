package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/hollownode"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/idle"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
)

// mostNodes is how many nodes a pack runs in its life, before its nodes move to another one. Each that has ended leaves 4 goroutines and
// 0.1 to 0.2 MiB (TestANodeThatHasEndedLeavesLittle), so that a pack of 25 nodes, 40 MiB, grows by 100 MiB at most.
const mostNodes = 500

func newPackCommand() *cobra.Command {
	return &cobra.Command{
		Use:    pack.Command,
		Hidden: true,
		Short:  "Run many hollow nodes in one process, for a podhost",
		Long: `Run the hollow nodes that are ordered over the socket ` + pack.Socket + ` in the working directory,
until the last of them has ended.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			go idle.FollowLoad()
			idle.FollowAllocation(idle.OfPack)
			if err := pack.Serve(cmd.Context(), mostNodes, runPacked); err != nil {
				return runError{err}
			}
			return nil
		},
	}
}

// runPacked runs one node of this pack. Paths stay relative to the working directory: the user of a pack may not pass through what
// leads to it.
func runPacked(ctx context.Context, order pack.Order) (int, error) {
	options := hollownode.Options{SharedDir: ".", Kill: order.Kill, Started: order.Started}
	if order.Alone {
		options.SharedDir, options.KillProcess = "", true
	}
	flags := pflag.NewFlagSet("hollow-node", pflag.ContinueOnError)
	addFlags(flags, &options)
	verbosity := flags.IntP("v", "v", 0, "")
	err := flags.Parse(order.Args)
	if err == nil {
		logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(order.Log), textlogger.Verbosity(*verbosity)))
		err = hollownode.Run(klog.NewContext(ctx, logger), options)
	}
	switch {
	case errors.Is(err, hollownode.ErrOwnProcess):
		return 0, fmt.Errorf("%w: %w", pack.ErrAlone, err)
	case errors.Is(err, hollownode.ErrOtherProcess):
		return 0, fmt.Errorf("%w: %w", pack.ErrRefused, err)
	case errors.Is(err, hollownode.ErrKilled):
		return pack.ExitKilled, nil
	case err != nil:
		_, _ = fmt.Fprintln(order.Log, "hollow-node:", err)
		return exitCode(runError{err}), nil
	}
	return 0, nil
}
