//go:build linux

// Package local has the commands of "kubectl hollow local": a whole fleet on this machine.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/local/preflight"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/joining"
)

const localLong = `Run a whole fleet on this machine: a hub, workload clusters with their agents, and machines, all of them local
processes on loopback. It needs no container runtime and no root.

The fleet runs until "kubectl hollow local down" ends it. A process that ends is restarted.`

// NewCommand returns "local".
func NewCommand(hub *cmdutil.Hub) *cobra.Command {
	dir := defaultDir()
	commands := []*cobra.Command{newUp(hub, &dir), newStatus(hub, &dir), newDown(hub, &dir), newKeep(hub, &dir)}
	for _, command := range commands {
		// A flag of each: the help of a command leaves out those of its parents.
		command.Flags().StringVar(&dir, "dir", dir, "directory of the fleet; for \"up\" it must be empty or not exist yet")
	}
	return cmdutil.Group(&cobra.Command{Use: "local", Short: "Run a whole fleet on this machine", Long: localLong}, commands...)
}

// defaultDir is where a user's fleet is. Paths below it are those of sockets too, and must be short.
func defaultDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("hollowfleet-local-%d", os.Getuid()))
}

// readReport reports on the fleet in dir.
func readReport(dir string) (localfleet.Report, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return localfleet.Report{}, fmt.Errorf("finding --dir: %w", err)
	}
	report, err := localfleet.ReadReport(dir)
	if errors.Is(err, fs.ErrNotExist) && localfleet.Check(dir) == nil {
		return report, fmt.Errorf("the start or the end of a fleet in %s was interrupted, and nothing of it runs: remove what is left with %s", dir, writtenCommand("down", dir))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return report, cmdutil.NotFound("there is no fleet in %s: start one with kubectl hollow local up", dir)
	}
	return report, err
}

// writtenCommand is how the user writes a command for the fleet in dir.
func writtenCommand(words, dir string) string {
	if dir != defaultDir() {
		words += " --dir " + joining.ShellQuote(dir)
	}
	return "kubectl hollow local " + words
}

const (
	keepName = "keep"
	// hostFlag adds the host of simulated clusters, and clusterFlag clusters of the fleet's own. A fleet of an earlier version is started
	// again with one of them or both.
	hostFlag, clusterFlag = "host", "cluster"
	// dirIDFlag is the ID of the directory that "up" has taken.
	dirIDFlag = "dir-id"
	// resumeFlag continues with the fleet that is in the directory.
	resumeFlag = "resume"
)

// newKeep returns the command that "up" starts in the background: it starts the fleet, keeps it running, and ends
// it with SIGTERM. Its programs end with it.
func newKeep(hub *cmdutil.Hub, dir *string) *cobra.Command {
	options := localfleet.Options{Kept: true, Progress: func(line string) { hub.Say("%s", line) }}
	var pid int
	var ignored []string
	command := &cobra.Command{
		Use: keepName, Short: "Start a fleet and keep it running", Hidden: true, Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) (err error) {
			options.Dir, options.KeeperArgs = *dir, withoutResume(os.Args[1:])
			if options.Owner, err = ownerOf(pid); err != nil {
				return err
			}
			options.CheckRoom = func(a localfleet.Addition) error {
				addition := preflight.Addition{Clusters: a.Clusters, Groups: a.Groups, Shared: a.Isolation == localfleet.IsolationShared, Reserved: a.Reserved}
				return addition.Check(preflight.ThisMachine.Available(options.Dir), ignored...)
			}
			ctx, stop := whileRuns(command.Context(), options.Owner)
			defer stop()
			fleet, err := localfleet.Up(ctx, options)
			if err != nil {
				return err
			}
			fleet.Keep(ctx)
			return errors.Join(ctx.Err(), fleet.Down())
		},
	}
	command.Flags().StringVar(&options.DirID, dirIDFlag, "", "ID of the directory, if it has been taken for this fleet")
	command.Flags().BoolVar(&options.Resume, resumeFlag, false, "continue with the fleet in the directory, whose keeper has ended")
	command.Flags().StringSliceVar(&ignored, ignoreFlag, nil, "checks that keep no simulated cluster from being started")
	command.Flags().StringSliceVar(&options.Clusters, clusterFlag, nil, "names of workload clusters of the fleet's own, as an earlier version had them")
	command.Flags().BoolVar(&options.Host, hostFlag, false, "let the hub's own cluster host simulated clusters, as Cluster "+localfleet.HostName)
	addOwner(command, &pid)
	addPrograms(command, &options.Programs)
	return command
}

// withoutResume are the arguments of a keeper as they are recorded.
func withoutResume(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--"+resumeFlag })
}

// defaultNodesPerPack is that of "simcluster start".
const defaultNodesPerPack = 25

const isolationFlag = "isolation"

// isolationUsage is the help of the flag.
func isolationUsage() string {
	return fmt.Sprintf("what control planes of workload clusters share. With \"process\" each component has a process of its own; with \"shared\" up to %d clusters "+
		"share one, which saves most memory and processor time: a panic in one restarts all of them, and no component can be killed or paused alone. Default: process, and shared from %d clusters on and without any",
		localfleet.ClustersPerGroup, localfleet.SharedFrom)
}

func addPrograms(command *cobra.Command, programs *localfleet.Programs) {
	flags := command.Flags()
	flags.StringVar(&programs.BinDir, "bin-dir", besideMe(), "directory of the programs hub, agent, simcluster and hollow-node")
	flags.IntVar(&programs.NodesPerPack, "nodes-per-pack", defaultNodesPerPack,
		"how many nodes of a cluster share a process, which saves memory and processor time; with 1 a node that crashes ends no other")
	cmdutil.Choice(command, &programs.Heartbeats, "heartbeats", "how often Nodes report: every 10 s (normal) or 30 s (slow), which saves processor time; slow Nodes have labels that say so (default: normal, or slow for a fleet that would need more than 75 % of the processors at rest)",
		localfleet.HeartbeatsNormal, localfleet.HeartbeatsSlow)
	cmdutil.Choice(command, &programs.Isolation, isolationFlag, isolationUsage(), localfleet.IsolationProcess, localfleet.IsolationShared)
	flags.StringArrayVar(&programs.HubArgs, "hub-arg", nil, "extra argument for the hub, such as --hub-arg=--metrics-address=127.0.0.1:8080; can be given several times")
	flags.StringArrayVar(&programs.ClusterArgs, "cluster-arg", nil, "extra argument of \"simcluster start\" for each workload cluster, such as --cluster-arg=--aggregation; can be given several times")
	flags.StringArrayVar(&programs.AgentArgs, "agent-arg", nil, "extra argument for each agent, such as --agent-arg=--freeze-after=6s; can be given several times")
}

// programFlags are the flags of addPrograms with which another process has the same programs.
func programFlags(programs localfleet.Programs) []string {
	flags := []string{"--" + isolationFlag, string(programs.Isolation), "--bin-dir", programs.BinDir, "--nodes-per-pack", strconv.Itoa(programs.NodesPerPack)}
	if programs.Heartbeats != "" {
		flags = append(flags, "--heartbeats", string(programs.Heartbeats))
	}
	for _, arg := range programs.HubArgs {
		flags = append(flags, "--hub-arg", arg)
	}
	for _, arg := range programs.AgentArgs {
		flags = append(flags, "--agent-arg", arg)
	}
	for _, arg := range programs.ClusterArgs {
		flags = append(flags, "--cluster-arg", arg)
	}
	return flags
}

const (
	ownerFlag = "while-pid"
	// ownerGlance is how often to look whether the owner of a fleet runs still.
	ownerGlance = 200 * time.Millisecond
)

func addOwner(command *cobra.Command, pid *int) {
	command.Flags().IntVar(pid, ownerFlag, 0, `end the fleet, and remove its files, when the process with this ID ends (default: it stays until "local down")`)
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

// errEnded is why the start of a fleet ends that is ended meanwhile.
var errEnded = errors.New("the fleet was ended while it started: its keeper does not run")

// whileKept returns a context that ends with ctx, and with the keeper of the fleet.
func whileKept(ctx context.Context, keeper runningKeeper) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-keeper.done:
			cancel(errEnded)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

func newDown(hub *cmdutil.Hub, dir *string) *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use: "down", Short: "End a fleet on this machine and remove its files",
		Long: `End a fleet on this machine: all its processes end, and its files are removed with all data. Files that the fleet did
not create stay in its directory and are listed. The directory itself is removed if "local up" created it and it is
empty.

It is not an error if there is no fleet. The exit code is 4, and nothing is done, if --dir has other files but no fleet, or a
fleet of an earlier version, which did not mark its files.`,
		Example: `  kubectl hollow local down`,
		Args:    cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			return takeDown(command.Context(), hub, *dir, timeout)
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "give up after this time")
	return command
}

func takeDown(ctx context.Context, hub *cmdutil.Hub, dir string, timeout time.Duration) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("finding --dir: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	left, err := localfleet.Down(limited, dir)
	if errors.Is(err, localfleet.ErrNoFleet) {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			return cmdutil.Refusal("--dir: %s has other files and no fleet: nothing was removed", dir)
		}
		hub.Say("No fleet in %s", dir)
		return nil
	}
	if errors.Is(err, localfleet.ErrUnusable) {
		return cmdutil.Refusal("--dir: %w", err)
	}
	if err != nil {
		return err
	}
	hub.Say("Ended the fleet in %s", dir)
	sayLeft(hub.Say, left)
	return nil
}

// sayLeft lists the files that the end of a fleet has left in its directory.
func sayLeft(say func(string, ...any), left []string) {
	if len(left) == 0 {
		return
	}
	say("Left in place, because the fleet did not create it:")
	for _, path := range left {
		say("  %s", path)
	}
}
