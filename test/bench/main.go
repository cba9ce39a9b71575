// Command bench measures a fleet on this machine: how long Machines take to become Ready, what they cost the
// API servers in writes, and the processes in memory and CPU. It reports; it never fails on a figure.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/test/otlp"
)

// settled is how long after the last change of a fleet all has been written that the hub puts off, such as counts and events.
const settled = 70 * time.Second

// errTimeUp ends a measurement, but does not make it fail.
var errTimeUp = errors.New("the time that --timeout gives is up")

type options struct {
	clusters, machines int
	rest, settle       time.Duration
	roll               bool
	surge, profile     string
	// provider is that of the Machines, empty for hollow nodes. serves is that these have the kubelet's port.
	provider string
	serves   bool
	// programs are how a fleet runs that this process starts; by default each component and each hollow node has a process of its own.
	programs      localfleet.Programs
	timeout       time.Duration
	samplingRatio float64
	output        string
	binDir        string
	out, progress io.Writer
}

func main() {
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	opts := options{out: os.Stdout, progress: os.Stderr}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a fleet on this machine",
		Long: `Start a hub and workload clusters, scale a MachineDeployment in each from 0, roll all Machines to
another kubelet version, and report what it took.
Exit status: 0 measured, 1 could not measure. No figure makes it fail. When --timeout ends it, it prints what it has
measured until then and says what was not reached, with status 0; if not even the fleet was up, that is status 1.`,
		Example: `  bench --clusters 3 --machines 20
  bench --clusters 1 --machines 200 --rest 0s
  bench --clusters 1 --machines 20 --surge 1
  bench --clusters 1 --machines 50 --rest 0s --trace-sampling-ratio 0.1
  bench -o json > figures.json`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), opts) },
	}
	defaultBin, _ := testenv.BinDir() // No default then; starting a program says what is missing.
	cmd.PersistentFlags().IntVar(&opts.clusters, "clusters", 3, "number of workload clusters")
	cmd.PersistentFlags().IntVar(&opts.machines, "machines", 20, "number of Machines in each cluster")
	cmd.Flags().DurationVar(&opts.settle, "settle", settled, "time between the last Machine's readiness and the measurement at rest; the hub puts some writes off for a minute")
	cmd.PersistentFlags().DurationVar(&opts.rest, "rest", time.Minute, "length of the measurement at rest")
	cmd.Flags().BoolVar(&opts.roll, "roll", true, "measure a rolling update of all Machines too")
	cmd.Flags().StringVar(&opts.surge, "surge", "10%", "maxSurge of the rolling update, a number or a percentage")
	cmd.Flags().Float64Var(&opts.samplingRatio, "trace-sampling-ratio", 0, "part of the traces that hub and agents send, to a receiver in this process; 0 for no tracing at all")
	cmd.PersistentFlags().StringVar(&opts.profile, "profile", string(v1alpha1.HollowNodeProfileFast), "profile of the hollow nodes, Fast or Realistic")
	cmd.PersistentFlags().DurationVar(&opts.timeout, "timeout", 30*time.Minute, "end after this time, with what has been measured until then")
	cmd.PersistentFlags().StringVarP(&opts.output, "output", "o", "text", "text or json")
	cmd.PersistentFlags().StringVar(&opts.binDir, "bin-dir", defaultBin, "directory with the built programs")
	cmd.AddCommand(loadCommand(&opts), scaleCommand(&opts), isolatedPeerCommand(&opts))
	return cmd
}

func run(ctx context.Context, opts options) (err error) {
	if opts.clusters < 1 || opts.machines < 1 {
		return errors.New("--clusters, --machines: want at least 1 each")
	}
	if opts.output != "text" && opts.output != "json" {
		return fmt.Errorf("--output: want text or json, got %q", opts.output)
	}
	if _, err := surgeOf(opts); err != nil {
		return err
	}
	if err := opts.checkProfile(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, opts.timeout, errTimeUp)
	defer cancel()
	fleet, remove, err := startFleet(ctx, opts)
	if err != nil {
		if timeUp(ctx) {
			err = errors.Join(errTimeUp, err)
		}
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	figures, err := measure(ctx, opts, fleet)
	if timeUp(ctx) {
		err = nil // The figures say what was not reached.
	}
	return errors.Join(err, figures.write(opts))
}

func (o options) checkProfile() error {
	if o.profile != string(v1alpha1.HollowNodeProfileFast) && o.profile != string(v1alpha1.HollowNodeProfileRealistic) {
		return fmt.Errorf("--profile: want Fast or Realistic, got %q", o.profile)
	}
	return nil
}

func timeUp(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errTimeUp) }

func (f *figures) write(opts options) error {
	if opts.output == "json" {
		encoder := json.NewEncoder(opts.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(f)
	}
	return f.print(opts.out)
}

func startFleet(ctx context.Context, opts options) (*localfleet.Fleet, func() error, error) {
	dir, err := os.MkdirTemp("", "hollowfleet-bench-")
	if err != nil {
		return nil, nil, fmt.Errorf("making a directory for the fleet: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("opening the fleet's directory: %w", err)
	}
	var names []string
	for i := range opts.clusters {
		names = append(names, fmt.Sprintf("c%d", i+1))
	}
	tracing, stop, err := opts.traces()
	if err != nil {
		return nil, nil, err
	}
	id, err := localfleet.Take(dir, true)
	if err != nil {
		stop()
		return nil, nil, err
	}
	programs := opts.programs
	programs.BinDir, programs.HubArgs, programs.AgentArgs = opts.binDir, tracing, tracing
	fleet, err := localfleet.Up(ctx, localfleet.Options{
		Dir: dir, DirID: id, Programs: programs, Clusters: names,
		Progress: func(line string) { fmt.Fprintln(opts.progress, line) },
	})
	if err != nil {
		stop()
		return nil, nil, err
	}
	// With many Machines at once, the hub may be too slow to renew its lease, and ends.
	keeping, release := context.WithCancel(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		fleet.Keep(keeping)
	}()
	return fleet, func() error {
		defer stop()
		release()
		<-kept
		return fleet.Down()
	}, nil
}

// traces starts a receiver for the traces of hub and agents, and returns their flags for it.
func (o options) traces() (flags []string, stop func(), err error) {
	if o.samplingRatio == 0 {
		return nil, func() {}, nil
	}
	receiver, err := otlp.Start("127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	ratio := strconv.FormatFloat(o.samplingRatio, 'f', -1, 64)
	return []string{"--otlp-endpoint=http://" + receiver.Address, "--trace-sampling-ratio=" + ratio}, receiver.Stop, nil
}
