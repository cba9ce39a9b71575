//go:build linux

package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/local/preflight"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const (
	upExample = `  # A hub and three workload clusters with three machines each
  kubectl hollow local up

  # Five clusters with ten machines each, whose kubelets report three versions
  kubectl hollow local up --clusters 5 --machines 10 \
    --kubelet-version v1.35.4 --kubelet-version v1.36.2 --kubelet-version v1.37.1

  # Twenty clusters, and then five
  kubectl hollow local up --clusters 20
  kubectl scale simulatedclusterset local --replicas 5

  # A second fleet next to the first
  kubectl hollow local up --dir /tmp/other --clusters 1

  # What a file says, and two clusters more
  kubectl hollow local up -f fleet.yaml --clusters 5

  # In a script: a fleet that always ends with the script, and the paths of its kubeconfigs
  kubectl hollow local up --dir /tmp/test --while-pid $$ -o json > fleet.json`

	// downTimeout bounds the end of a fleet that did not come up.
	downTimeout = 2 * time.Minute

	ignoreFlag = "ignore-preflight-errors"

	mostClusters, mostMachines = 200, 10000
)

// programs are what a fleet is made of.
var programs = []string{"hub", "agent", "simcluster", "hollow-node"}

type upOptions struct {
	hub *cmdutil.Hub
	dir string
	// temporary says that the directory was made for this fleet and is to be removed with it.
	temporary bool
	localfleet.Programs
	clusters int
	workers  workers
	// isHalfMade is that the directory has what is left of a start that was interrupted before the fleet was up.
	isHalfMade bool
	// dryRun says only what the fleet needs. ignored are the preflight checks whose errors are warnings.
	dryRun  bool
	ignored []string
	// slowByDefault is that nobody but the size of the fleet has decided for slow heartbeats.
	slowByDefault bool
	// timeout is 0 for one that grows with the fleet.
	timeout time.Duration
	// owner is the ID of the process that the fleet is for; 0 if the fleet is to stay.
	owner  int
	output format
	// file is the file of -f; empty without one. named are the fields of it by their flags, for messages: those of flags that are not
	// given as well.
	file  string
	named map[string]string
	// progress takes what is told while the fleet starts: standard output is for the result alone if that has a format.
	progress io.Writer
}

// workers are the Machines that each cluster gets.
type workers struct {
	machines int
	// versions are those of the kubelets; clusters take turns.
	versions []string
}

func newUp(hub *cmdutil.Hub, dir *string) *cobra.Command {
	return newUpCommand(&upOptions{hub: hub}, dir)
}

// newUpCommand returns "local up", which reads its options into o.
func newUpCommand(o *upOptions, dir *string) *cobra.Command {
	command := &cobra.Command{
		Use: "up", Short: "Start a fleet on this machine",
		Long: localLong + `

Workload clusters are those of the SimulatedClusterSet "local": local-0, local-1 and so on, each with a MachineDeployment "workers".
They come and go while the fleet runs, with "kubectl scale simulatedclusterset local --replicas 20". Those that the fleet starts with
have the label stage. The hub's own cluster hosts them, as Cluster "host".

If there is a fleet whose keeper has ended, as after a restart of the machine, it is started again as it was, with all of its data. If the
command that started a fleet was killed, its start is continued as it was asked for. Other flags than -o and --timeout do not count then,
and nothing is removed should that fail. What was killed before the fleet was up is removed first, and started from the beginning. Otherwise the directory of --dir must be empty, or not exist yet. The fleet marks it as its own. If the fleet does not come up, and with
"local down", its files are removed and no others.

Before anything starts, the command prints what the fleet needs and what this machine and its control groups have left. It exits with 4
if the fleet does not fit; --ignore-preflight-errors starts it all the same.

With -f the flags that are not given are as a file says, which holds a LocalFleet: docs/local-fleet.md lists its fields.

With -o the command prints the output of "local status" in that format, and its progress on standard error.`,
		Example: upExample, Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.readFile(command.Flags()); err != nil {
				return err
			}
			o.dir = *dir
			return o.run(command.Context())
		},
	}
	flags := command.Flags()
	flags.StringVarP(&o.file, "filename", "f", "", "file with a LocalFleet, or - for standard input; flags that are given are used in place of its fields")
	flags.IntVar(&o.clusters, "clusters", 3, "number of workload clusters at first")
	flags.IntVar(&o.workers.machines, "machines", 3, "number of machines in each cluster; 0 creates no MachineDeployment")
	flags.StringArrayVar(&o.workers.versions, "kubelet-version", nil, "kubelet version that the Nodes report, such as v1.36.2; if given several times, clusters take turns, and those of later have no machines (default: the version of the kubelet code)")
	flags.DurationVar(&o.timeout, "timeout", 0, "longest time to wait; after it, everything that was started is ended (default: 5m, and 20s more for each cluster and 1s for each machine)")
	flags.BoolVar(&o.dryRun, "dry-run", false, "start nothing: print what the fleet needs and what this machine has; the exit code is 4 if it does not fit")
	flags.StringSliceVar(&o.ignored, ignoreFlag, nil, "checks whose errors are only warnings: "+strings.Join(preflight.Names, ", "))
	flags.BoolVar(&o.temporary, "temporary-dir", false, "remove the directory with the fleet if nothing else is in it, even if it existed before")
	addOwner(command, &o.owner)
	addPrograms(command, &o.Programs)
	cmdutil.ChoiceP(command, &o.output, "output", "o", cmdutil.OutputUsage(formats...), formats...)
	return command
}

// besideMe is the directory of this program; empty if it is unknown.
func besideMe() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	return filepath.Dir(path)
}

// nameOf is what a message calls a flag: its field, if a file has given it.
func (o *upOptions) nameOf(flag string) string { return cmp.Or(o.named[flag], "--"+flag) }

func (o *upOptions) validateFlags() error {
	if o.clusters < 0 || o.clusters > mostClusters {
		return cmdutil.Usage("%s: want 0 to %d, got %d", o.nameOf("clusters"), mostClusters, o.clusters)
	}
	if o.workers.machines < 0 || o.workers.machines > mostMachines {
		return cmdutil.Usage("%s: want 0 to %d, got %d", o.nameOf("machines"), mostMachines, o.workers.machines)
	}
	if o.NodesPerPack < 1 {
		return cmdutil.Usage("%s: want at least 1, got %d", o.nameOf("nodes-per-pack"), o.NodesPerPack)
	}
	if o.timeout < 0 {
		return cmdutil.Usage("%s: want more than 0s, got %s", o.nameOf("timeout"), o.timeout)
	}
	for _, name := range o.ignored {
		if !slices.Contains(preflight.Names, name) {
			return cmdutil.Usage("%s: want one of %s, got %q", o.nameOf(ignoreFlag), strings.Join(preflight.Names, ", "), name)
		}
	}
	for _, text := range o.workers.versions {
		if _, err := version.ParseSemantic(text); err != nil {
			return cmdutil.Usage("%s: %q is not a version: write it as v1.36.2", o.nameOf("kubelet-version"), text)
		}
	}
	for _, name := range programs {
		if _, err := os.Stat(filepath.Join(o.BinDir, name)); err != nil {
			return fmt.Errorf("program %s is not in %s: run make build, or name its directory with %s", name, o.BinDir, o.nameOf("bin-dir"))
		}
	}
	return nil
}

// checkMinors refuses a hollow node that has not the kubelet code of the minor that it is named after. A fleet that is started again leaves
// it out.
func (o *upOptions) checkMinors(ctx context.Context) error {
	_, err := localfleet.FindMinors(ctx, o.BinDir)
	return err
}

// takeDirectory takes the directory before anything is written.
func (o *upOptions) takeDirectory() (*localfleet.Start, error) {
	config, err := o.effective().encode()
	if err != nil {
		return nil, err
	}
	start, err := localfleet.TakeForStart(o.dir, o.temporary, localfleet.Start{
		Clusters: o.clusters, Machines: o.workers.machines, KubeletVersions: o.workers.versions, Heartbeats: o.Heartbeats, Config: config,
	})
	switch {
	case errors.Is(err, localfleet.ErrTaken):
		return nil, cmdutil.Refusal("%s: %w, or the rest of one: see %s, or end it with %s%s", o.nameOf("dir"), err, writtenCommand("status", o.dir), writtenCommand("down", o.dir), o.describeChanges())
	case errors.Is(err, localfleet.ErrUnusable):
		return nil, cmdutil.Refusal("%s: %w; choose a directory that is empty or does not exist yet", o.nameOf("dir"), err)
	case err != nil:
		return nil, fmt.Errorf("--dir: %w", err)
	}
	return start, nil
}

func (o *upOptions) describeFleet() string {
	if o.clusters == 0 {
		return "a hub without workload clusters"
	}
	return "a hub and " + plural.Count(o.clusters, "workload cluster")
}

func (o *upOptions) run(ctx context.Context) error {
	var err error
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return fmt.Errorf("finding --dir: %w", err)
	}
	if err := o.validateFlags(); err != nil {
		return err
	}
	o.Isolation = cmp.Or(o.Isolation, localfleet.DefaultIsolation(o.clusters))
	o.chooseHeartbeats()
	if o.progress = o.hub.Out; o.output != "" {
		o.progress = o.hub.ErrOut
	}
	if !o.dryRun {
		if continued, err := o.continueFleet(ctx); continued || err != nil {
			return err
		}
	}
	if err := o.checkMinors(ctx); err != nil {
		return err
	}
	if err := o.showFile(); err != nil {
		return err
	}
	if err := o.checkNeeds(); err != nil || o.dryRun {
		return err
	}
	owner, err := ownerOf(o.owner)
	if err != nil {
		return err
	}
	ctx, stop := whileRuns(ctx, owner)
	defer stop()
	timeout := cmp.Or(o.timeout, defaultTimeout(o.clusters, o.workers.machines))
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, cmdutil.Timeout("the fleet was not up after %s, and was ended", timeout))
	defer cancel()
	return o.startFleet(ctx)
}

// startFleet starts a fleet in its directory. What was started ends with a start that fails.
func (o *upOptions) startFleet(ctx context.Context) error {
	if err := o.removeHalfMade(ctx); err != nil {
		return err
	}
	start, err := o.takeDirectory()
	if err != nil {
		return err
	}
	o.printf("Starting %s in %s", o.describeFleet(), o.dir)
	keeper, err := o.startDetached(o.keeperArgs(start.DirID()))
	if err != nil {
		return errors.Join(err, o.clearFailed(ctx))
	}
	if err := followKeeper(ctx, keeperOf(keeper), o.dir, 0, o.progress); err != nil {
		return o.giveUp(ctx, keeper, err)
	}
	kept, release := whileKept(ctx, keeperOf(keeper))
	defer release()
	if err := o.createMachines(kept); err != nil {
		return o.giveUp(kept, keeper, err)
	}
	if err := start.Finish(); err != nil {
		return err
	}
	return o.printResult(ctx)
}

// printResult prints what the fleet offers, for people or for a script.
func (o *upOptions) printResult(ctx context.Context) error {
	if o.output != "" {
		return o.printReport(ctx)
	}
	return o.printSummary()
}

// printf tells of the progress.
func (o *upOptions) printf(format string, args ...any) { fmt.Fprintf(o.progress, format+"\n", args...) }

// printReport prints the fleet for a script.
func (o *upOptions) printReport(ctx context.Context) error {
	report, err := localfleet.ReadReport(o.dir)
	if err != nil {
		return err
	}
	return showReport(ctx, o.hub.Out, report, o.output)
}

// giveUp ends what was started.
func (o *upOptions) giveUp(ctx context.Context, keeper *process.Process, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	failed := o.clearFailed(ctx, keeper)
	stopped := keeper.Stop(downTimeout)
	if errors.Is(failed, localfleet.ErrUnusable) {
		failed = o.clearFailed(ctx) // The keeper was just removing the files itself.
	}
	return errors.Join(err, stopped, failed)
}

// clearFailed ends and removes a fleet that did not come up. It may be gone already: its keeper does that too.
func (o *upOptions) clearFailed(ctx context.Context, keeper ...*process.Process) error {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTimeout)
	defer cancel()
	left, err := localfleet.Down(ending, o.dir, keeper...)
	sayLeft(o.printf, left)
	if errors.Is(err, localfleet.ErrNoFleet) {
		return nil
	}
	return err
}

// keeperArgs are the arguments of the process that keeps the fleet in the directory with that ID.
func (o *upOptions) keeperArgs(id string) []string {
	args := append([]string{"local", keepName, "--dir", o.dir, "--" + dirIDFlag, id, "--" + hostFlag}, programFlags(o.Programs)...)
	if o.owner != 0 {
		args = append(args, "--"+ownerFlag, strconv.Itoa(o.owner))
	}
	if len(o.ignored) > 0 {
		args = append(args, "--"+ignoreFlag, strings.Join(o.ignored, ","))
	}
	return args
}

// startDetached starts this program with other arguments, as one that outlives the command.
func (o *upOptions) startDetached(args []string) (*process.Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	return process.Start(process.Spec{
		Name: localfleet.KeeperName, Path: program, Args: args, LogFile: localfleet.LogFile(o.dir, localfleet.KeeperName), Detached: true,
	})
}
