package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// scaleMode is a way to run a fleet, by arguments of "kubectl hollow local up".
type scaleMode struct {
	name string
	args []string
}

// scaleModes are what the table compares. The first is how every fleet ran before hollow nodes and control planes could share processes.
var scaleModes = []scaleMode{
	{"processes", []string{"--isolation=process", "--nodes-per-pack=1"}},
	{"packs", []string{"--isolation=process"}},
	{"shared", []string{"--isolation=shared"}},
	{"shared, slow heartbeats", []string{"--isolation=shared", "--heartbeats=slow"}},
}

// scaleOptions are what "bench scale" takes beside options.
type scaleOptions struct {
	options
	// scaleTo is how many Machines one cluster is scaled to; 0 leaves that out.
	scaleTo int
	modes   []string
}

// scaleFigures is what one mode takes.
type scaleFigures struct {
	Mode string `json:"mode"`
	// Plane is a control plane at rest that has no nodes, with its podhost. PlaneWithNodes is the same with Machines, Node the kubelet's side
	// of a node.
	Plane, PlaneWithNodes, Node cost
	// Fleet is everything, hub and agents included.
	Fleet cost
	// UpSeconds is the time from "local up" to all Ready, ScaleSeconds that of scaling one cluster.
	UpSeconds    float64 `json:"upSeconds"`
	ScaleSeconds float64 `json:"scaleSeconds,omitempty"`
	// NotMeasured says what was not measured, and why.
	NotMeasured []string `json:"notMeasured,omitempty"`
}

// cost is memory and processor time.
type cost struct {
	AnonymousMiB        float64 `json:"anonymousMiB"`
	PrivateMiB          float64 `json:"privateMiB"`
	CPUSecondsPerMinute float64 `json:"cpuSecondsPerMinute"`
}

func (c cost) dividedBy(n int) cost {
	return cost{c.AnonymousMiB / float64(n), c.PrivateMiB / float64(n), c.CPUSecondsPerMinute / float64(n)}
}

func scaleCommand(opts *options) *cobra.Command {
	scale := scaleOptions{}
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Measure what control planes, nodes and whole fleets take, in each way to run them",
		Long: `Start fleets with "kubectl hollow local up", without and with Machines, and measure all their processes at rest: private
memory (smaps_rollup) and processor time (/proc/PID/stat). Each mode is a column of one table.
Exit status: 0 measured, 1 could not measure. A mode that this machine does not hold is left out and named.`,
		Example: `  bench scale --clusters 3 --machines 20
  bench scale --clusters 50 --machines 20 --scale-to 0 --mode shared`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			scale.options = *opts
			return runScale(cmd.Context(), scale)
		},
	}
	cmd.Flags().IntVar(&scale.scaleTo, "scale-to", 200, "number of Machines that one cluster is scaled to; 0 leaves that out")
	cmd.Flags().StringArrayVar(&scale.modes, "mode", nil, "measure this mode only; can be given several times: "+strings.Join(modeNames(), "; "))
	cmd.Flags().DurationVar(&scale.settle, "settle", settled, "time between the start of a fleet and its measurement")
	return cmd
}

func modeNames() []string {
	var names []string
	for _, mode := range scaleModes {
		names = append(names, mode.name)
	}
	return names
}

func runScale(ctx context.Context, opts scaleOptions) error {
	if opts.clusters < 1 || opts.machines < 1 || opts.scaleTo < 0 {
		return errors.New("--clusters, --machines: want at least 1 each; --scale-to: want 0 or more")
	}
	for _, name := range opts.modes {
		if !slices.Contains(modeNames(), name) {
			return fmt.Errorf("--mode: want one of %q, got %q", modeNames(), name)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, opts.timeout, errTimeUp)
	defer cancel()
	var all []scaleFigures
	for _, mode := range scaleModes {
		if len(opts.modes) > 0 && !slices.Contains(opts.modes, mode.name) {
			continue
		}
		figures := scaleFigures{Mode: mode.name}
		figures.measure(ctx, opts, mode)
		all = append(all, figures)
	}
	if opts.output == "json" {
		encoder := json.NewEncoder(opts.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(all)
	}
	return printScale(opts, all)
}

// measure measures one mode. What fails is named, and the next mode is measured all the same.
func (f *scaleFigures) measure(ctx context.Context, opts scaleOptions, mode scaleMode) {
	for _, part := range []struct {
		name               string
		clusters, machines int
		measure            func(context.Context, *upFleet) error
	}{
		{"control planes without nodes", opts.clusters, 0, func(ctx context.Context, fleet *upFleet) error {
			sums, err := fleet.rest(ctx, opts)
			f.Plane = sums[sidePlane].dividedBy(opts.clusters)
			return err
		}},
		{"the fleet", opts.clusters, opts.machines, func(ctx context.Context, fleet *upFleet) error {
			f.UpSeconds = fleet.seconds
			sums, err := fleet.rest(ctx, opts)
			f.PlaneWithNodes, f.Node = sums[sidePlane].dividedBy(opts.clusters), sums[sideNode].dividedBy(opts.clusters*opts.machines)
			f.Fleet = sums[sideAll]
			return err
		}},
		{"the scale of one cluster", 1, min(opts.scaleTo, 1), func(ctx context.Context, fleet *upFleet) (err error) {
			f.ScaleSeconds, err = fleet.scale(ctx, opts.scaleTo)
			return err
		}},
	} {
		if part.name == "the scale of one cluster" && opts.scaleTo == 0 {
			continue
		}
		fmt.Fprintf(opts.progress, "%s: measuring %s\n", mode.name, part.name)
		if err := withFleet(ctx, opts, mode, part.clusters, part.machines, part.measure); err != nil {
			f.NotMeasured = append(f.NotMeasured, fmt.Sprintf("%s: %v", part.name, err))
		}
	}
}

// upFleet is a fleet that "local up" has started.
type upFleet struct {
	report  localfleet.Report
	seconds float64
}

// withFleet starts a fleet, measures it, and ends it.
func withFleet(ctx context.Context, opts scaleOptions, mode scaleMode, clusters, machines int, measure func(context.Context, *upFleet) error) (err error) {
	dir, err := os.MkdirTemp("", "hollowfleet-bench-")
	if err != nil {
		return fmt.Errorf("making a directory for the fleet: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("opening the fleet's directory: %w", err)
	}
	hollow := func(ctx context.Context, args ...string) ([]byte, error) {
		var problem bytes.Buffer
		command := exec.CommandContext(ctx, filepath.Join(opts.binDir, "kubectl-hollow"), append([]string{"local"}, args...)...)
		command.Stderr = io.MultiWriter(&problem, opts.progress)
		output, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("kubectl hollow local %s: %w: %s", args[0], err, strings.TrimSpace(problem.String()))
		}
		return output, nil
	}
	defer func() {
		_, downErr := hollow(context.WithoutCancel(ctx), "down", "--dir", dir)
		// A fleet that ended has taken its directory with it; what is left in one that did not is not touched.
		if removeErr := os.Remove(dir); !errors.Is(removeErr, fs.ErrNotExist) {
			downErr = errors.Join(downErr, removeErr)
		}
		err = errors.Join(err, downErr)
	}()
	args := append([]string{
		"up", "--dir", dir, "--temporary-dir", "--bin-dir", opts.binDir, "--while-pid", strconv.Itoa(os.Getpid()), "-o", "json",
		"--clusters", strconv.Itoa(clusters), "--machines", strconv.Itoa(machines),
	}, mode.args...)
	begin := time.Now()
	output, err := hollow(ctx, args...)
	if err != nil {
		return err
	}
	fleet := &upFleet{seconds: time.Since(begin).Seconds()}
	if err := json.Unmarshal(output, &fleet.report); err != nil {
		return fmt.Errorf("reading what kubectl hollow local up printed: %w", err)
	}
	return measure(ctx, fleet)
}

// The sides of a fleet. What is neither is in sideAll only: the hub, its control plane, agents and the keeper.
const (
	sidePlane = "plane"
	sideNode  = "node"
	sideAll   = "all"
)

// sides returns the processes of the fleet, with the side of each.
func (f *upFleet) sides() map[int]string {
	found := map[int]string{}
	for _, running := range f.report.Processes { // The keeper is the first.
		switch {
		case running.Name == localfleet.KeeperName:
			for _, pid := range process.Descendants(running.PID) {
				found[pid] = sidePlane
				if process.Program(pid) == "hollow-node" {
					found[pid] = sideNode
				}
			}
			found[running.PID] = sideAll
		case running.Name == "hub", running.Name == "cluster hub", strings.HasPrefix(running.Name, "agent "):
			for _, pid := range append(process.Descendants(running.PID), running.PID) {
				found[pid] = sideAll
			}
		}
	}
	return found
}

// rest measures the fleet at rest.
func (f *upFleet) rest(ctx context.Context, opts scaleOptions) (map[string]cost, error) {
	if err := sleep(ctx, opts.settle); err != nil {
		return nil, err
	}
	read := func() map[int]usage {
		found := map[int]usage{}
		for pid, side := range f.sides() {
			if one, err := readUsage(pid, side); err == nil { // It may have ended meanwhile.
				found[pid] = one
			}
		}
		return found
	}
	begin, before := time.Now(), read()
	if err := sleep(ctx, opts.rest); err != nil {
		return nil, err
	}
	after, minutes := read(), time.Since(begin).Minutes()
	sums := map[string]cost{}
	for pid, now := range after {
		one := cost{AnonymousMiB: now.anonymousKiB / 1024, PrivateMiB: now.privateKB / 1024}
		if earlier, ok := before[pid]; ok {
			one.CPUSecondsPerMinute = (now.cpuSeconds - earlier.cpuSeconds) / minutes
		}
		for _, side := range slices.Compact([]string{now.role, sideAll}) {
			sum := sums[side]
			sums[side] = cost{sum.AnonymousMiB + one.AnonymousMiB, sum.PrivateMiB + one.PrivateMiB, sum.CPUSecondsPerMinute + one.CPUSecondsPerMinute}
		}
	}
	return sums, nil
}

// scale scales the only cluster, and returns how long it takes until all Machines are Ready.
func (f *upFleet) scale(ctx context.Context, machines int) (float64, error) {
	config, err := clientcmd.BuildConfigFromFlags("", f.report.Hub.Kubeconfig)
	if err != nil {
		return 0, fmt.Errorf("reading the hub's kubeconfig: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme.New()})
	if err != nil {
		return 0, fmt.Errorf("making a client of the hub: %w", err)
	}
	deployment := &v1alpha1.MachineDeployment{}
	deployment.Namespace, deployment.Name = f.report.Clusters[0].Name, localfleet.WorkersName
	begin := time.Now()
	if err := c.Patch(ctx, deployment, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, machines))); err != nil {
		return 0, fmt.Errorf("scaling: %w", err)
	}
	err = waitFor(ctx, func(ctx context.Context) bool {
		return c.Get(ctx, client.ObjectKeyFromObject(deployment), deployment) == nil && int(deployment.Status.ReadyReplicas) == machines
	})
	if err != nil {
		return 0, fmt.Errorf("waiting for %d Machines, of which %d are Ready: %w", machines, deployment.Status.ReadyReplicas, err)
	}
	return time.Since(begin).Seconds(), nil
}
