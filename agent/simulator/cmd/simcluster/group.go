package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/component-base/version"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/group"
)

const groupLong = `Run a group in the foreground: a process in which the control planes of up to %d
clusters share their memory, and another one for their podhosts. "simcluster start
--group DIR" starts a cluster there. All of them emulate one Kubernetes minor.

It ends with SIGTERM or SIGINT, or when the process that started it ends, and stops
its clusters before. If the shared process ends by itself, because a component of one
cluster panics, all control planes of the group start again, with their data.
DIR/status.json says so, and DIR/planes.log has the trace. So does a shared process that
answers none of 36 checks in a row, which takes about 3 minutes: suspend it for less.
The same goes for the process of the podhosts, whose log is DIR/podhosts.log: all hollow
nodes of the group start again then, and no control plane.

Not isolated are: feature gates and log levels, and what /metrics says of anything but
requests to the API server. A component cannot be killed or paused alone.`

var errNoGroupDir = usageError(errors.New("--dir is needed"))

func newGroupCommand() *cobra.Command {
	options := group.Options{}
	command := &cobra.Command{
		Use:   "group --dir DIR",
		Short: "Run control planes of several clusters in one process",
		Long:  fmt.Sprintf(groupLong, group.MaxClusters),
		Example: `  simcluster group --dir /tmp/group &
  simcluster start --group /tmp/group --name c1 --data-dir /tmp/c1
  simcluster start --group /tmp/group --name c2 --data-dir /tmp/c2`,
		Args: usageArguments(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			if options.Dir == "" {
				return errNoGroupDir
			}
			if err := controlplane.ValidateMinor(options.EmulatedVersion); err != nil {
				return err
			}
			var err error
			if options.Executable, err = os.Executable(); err != nil {
				return fmt.Errorf("finding this program: %w", err)
			}
			options.ChildArg, options.Version, options.Progress = componentArg, version.Get().GitVersion, command.OutOrStdout()
			return untilSignal(command.Context(), func(ctx context.Context) error { return group.Run(ctx, options) })
		},
	}
	set := command.Flags()
	set.StringVar(&options.Dir, "dir", "", "the group's directory, which is empty or does not exist yet (needed)")
	set.StringVar(&options.EmulatedVersion, "emulated-version", "", "the Kubernetes minor that all clusters emulate, such as 1.36 (default: that of the components)")
	set.BoolVar(&options.ExitWithParent, "exit-with-parent", true, "end the group when the process that started it ends")
	set.IntVar(&options.ParentPID, "parent-pid", 0, "the process to end with, if it is not the one that started simcluster")
	command.AddCommand(newGroupStatusCommand(), newGroupStopCommand())
	return command
}

func newGroupStatusCommand() *cobra.Command {
	var dir string
	command := &cobra.Command{
		Use:     "status --dir DIR",
		Short:   "Show a group and its clusters, as JSON",
		Example: "  simcluster group status --dir /tmp/group",
		Args:    usageArguments(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			if dir == "" {
				return errNoGroupDir
			}
			status, err := group.FetchStatus(command.Context(), dir)
			if err != nil {
				return err
			}
			encoder := json.NewEncoder(command.OutOrStdout())
			encoder.SetIndent("", "  ")
			return encoder.Encode(status)
		},
	}
	command.Flags().StringVar(&dir, "dir", "", "the group's directory (needed)")
	return command
}

func newGroupStopCommand() *cobra.Command {
	var dir string
	var timeout time.Duration
	command := &cobra.Command{
		Use:     "stop --dir DIR",
		Short:   "Stop a group with all its clusters and wait until it is gone",
		Example: "  simcluster group stop --dir /tmp/group",
		Args:    usageArguments(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			if dir == "" {
				return errNoGroupDir
			}
			ctx, cancel := context.WithTimeout(command.Context(), timeout)
			defer cancel()
			status, err := group.FetchStatus(ctx, dir)
			if err != nil {
				return err
			}
			return controlplane.EndProcess(ctx, status.SupervisorPID, func() error {
				again, err := group.FetchStatus(ctx, dir)
				if err == nil && again.SupervisorPID != status.SupervisorPID {
					err = fmt.Errorf("process %d was replaced by %d meanwhile; try again", status.SupervisorPID, again.SupervisorPID)
				}
				return err
			})
		},
	}
	command.Flags().StringVar(&dir, "dir", "", "the group's directory (needed)")
	command.Flags().DurationVar(&timeout, "timeout", stopDefault, "how long to wait before the group is killed")
	return command
}

// startInGroup starts a cluster in a group and returns when it is ready. The process that it ends with is the one that has started
// this command, which ends now.
func startInGroup(ctx context.Context, dir string, options controlplane.Options) error {
	if options.ExitWithParent && options.ParentPID == 0 {
		options.ParentPID = os.Getppid()
	}
	// The group has a working directory of its own.
	for _, path := range append([]*string{&options.DataDir}, pointersTo(options.Manifests)...) {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("finding %s: %w", *path, err)
		}
		*path = absolute
	}
	return untilSignal(ctx, func(ctx context.Context) error { return group.StartCluster(ctx, dir, options) })
}

func pointersTo(texts []string) []*string {
	var pointers []*string
	for i := range texts {
		pointers = append(pointers, &texts[i])
	}
	return pointers
}
