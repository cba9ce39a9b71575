package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

// defaultNodesPerPack is that of "kubectl hollow local up".
const defaultNodesPerPack = 25

// scaleMode is a way to run a fleet.
type scaleMode struct {
	name     string
	programs localfleet.Programs
}

// scaleModes are what the table compares. The first is how every fleet ran before hollow nodes and control planes could share processes.
var scaleModes = []scaleMode{
	{"processes", localfleet.Programs{Isolation: localfleet.IsolationProcess, NodesPerPack: 1}},
	{"packs", localfleet.Programs{Isolation: localfleet.IsolationProcess, NodesPerPack: defaultNodesPerPack}},
	{"shared", localfleet.Programs{Isolation: localfleet.IsolationShared, NodesPerPack: defaultNodesPerPack}},
	{"shared-slow", localfleet.Programs{Isolation: localfleet.IsolationShared, NodesPerPack: defaultNodesPerPack, Heartbeats: localfleet.HeartbeatsSlow}},
}

// The rows of the table. Each is measured with a fleet of its own, or a control plane of its own for what is not Hollowfleet.
const (
	rowPlane    = "plane"
	rowFleet    = "fleet"
	rowScale    = "scale"
	rowLoad     = "load"
	rowSets     = "sets"
	rowKwok     = "kwok"
	rowKubemark = "kubemark"
	// These are measured only if --rows names them: they take long, or need another program.
	rowNodes        = "nodes"
	rowKwokMachines = "kwok-machines"
)

var scaleRows = []string{rowPlane, rowFleet, rowScale, rowLoad, rowSets, rowKwok, rowKubemark, rowNodes, rowKwokMachines}

// scaleOptions are what "bench scale" takes beside options.
type scaleOptions struct {
	options
	// scaleTo is how many Machines one cluster is scaled to, once for each number.
	scaleTo []int
	// modes and rows are what to measure. Without any it is every mode, and every row whose program is there.
	modes, rows []string
	load        loadOptions
	// kwok and kubemark are the paths of these programs, kwokNodes and kubemarkNodes how many nodes they are to simulate.
	kwok, kubemark           string
	kwokNodes, kubemarkNodes int
	// kwokMachines is how many Machines of provider kwok one cluster gets.
	kwokMachines int
	// atOnce is how many control planes of a set are upgraded at a time.
	atOnce int
}

// scaleReport is what "bench scale" has measured.
type scaleReport struct {
	Clusters int            `json:"clusters"`
	Machines int            `json:"machinesPerCluster"`
	Modes    []scaleFigures `json:"modes,omitempty"`
	Peers    []peerFigures  `json:"peers,omitempty"`
}

// scaleFigures is what one mode takes.
type scaleFigures struct {
	Mode string `json:"mode"`
	// Plane is a control plane at rest that has no nodes, with its podhost. PlaneWithNodes is the same with Machines, Node the kubelet's side
	// of a node.
	Plane          cost `json:"plane,omitzero"`
	PlaneWithNodes cost `json:"planeWithNodes,omitzero"`
	Node           cost `json:"node,omitzero"`
	// Fleet is everything, hub and agents included.
	Fleet cost `json:"fleet,omitzero"`
	// UpSeconds is the time from "local up" to all Ready, PlanesUpSeconds the same without Machines.
	UpSeconds       float64 `json:"upSeconds,omitempty"`
	PlanesUpSeconds float64 `json:"planesUpSeconds,omitempty"`
	// Scales are those of one cluster.
	Scales []scaledCluster `json:"scales,omitempty"`
	Load   *loadFigures    `json:"load,omitempty"`
	Set    *setFigures     `json:"set,omitempty"`
	// Nodes are hollow nodes of each kind, KwokMachines those without kubelets.
	Nodes        []nodeFigures       `json:"nodes,omitempty"`
	KwokMachines *kwokMachineFigures `json:"kwokMachines,omitempty"`
	// NotMeasured says what was not measured, and why.
	NotMeasured []string `json:"notMeasured,omitempty"`
}

// scaledCluster is one cluster that was scaled from 1 to Machines, and how long it took until all were Ready.
type scaledCluster struct {
	Machines int     `json:"machines"`
	Seconds  float64 `json:"seconds"`
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
	scale := scaleOptions{load: loadOptions{qps: 1, portion: 4, every: 10 * time.Second, readyWithin: readyWithin}}
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Measure what control planes, nodes and whole fleets take, in each way to run them",
		Long: `Start fleets with "kubectl hollow local up", without and with Machines, and measure all their processes at rest: private
memory (smaps_rollup) and processor time (/proc/PID/stat). Each mode is a column of one table:

  processes    each component and each hollow node in a process of its own
  packs        hollow nodes of a cluster share processes
  shared       control planes share processes too
  shared-slow  and Nodes report every 30 seconds

--rows measures some rows only:

  plane     control planes without nodes
  fleet     CLUSTERS x MACHINES at rest, and how long "local up" takes
  scale     one cluster, scaled to --scale-to
  load      a load test over CLUSTERS x MACHINES with --pods pods in each cluster
  sets      a SimulatedClusterSet of CLUSTERS x MACHINES: made, its control planes upgraded by a minor, --at-once at a
            time, and removed
  kwok      kwok's controller with --kwok-nodes nodes
  kubemark  --kubemark-nodes processes of kubemark, in a network of their own: they serve without authentication

These are measured only if named:

  nodes          MACHINES hollow nodes of one cluster at rest, Fast and Realistic, each without and with the kubelet's port,
                 and with 10 pods each
  kwok-machines  one cluster, scaled to --kwok-machines Machines of provider kwok, which "make build-kwok" builds

Exit status: 0 measured, 1 could not measure. A mode that this machine does not hold is left out and named.`,
		Example: `  bench scale --clusters 3 --machines 20
  bench scale --rows=plane --clusters 5 --modes=processes,shared
  bench scale --rows=fleet --clusters 50 --machines 20 --modes=shared,shared-slow
  bench scale --rows=scale --scale-to 200,1000 --modes=packs
  bench scale --rows=sets --clusters 20 --machines 5 --modes=processes,shared
  bench scale --rows=load --clusters 10 --machines 20 --modes=shared
  bench scale --rows=nodes --machines 20 --modes=shared
  bench scale --rows=kwok-machines --kwok-machines 10000 --modes=shared
  bench scale --rows=kwok,kubemark --kwok bin/peers/kwok --kubemark bin/peers/kubemark`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settle := scale.settle
			scale.options = *opts
			scale.settle = settle
			return runScale(cmd.Context(), scale)
		},
	}
	cmd.Flags().IntSliceVar(&scale.scaleTo, "scale-to", []int{200}, "number of Machines that one cluster is scaled to; several are measured one after the other")
	cmd.Flags().StringSliceVar(&scale.modes, "modes", nil, "modes to measure (default: all)")
	cmd.Flags().StringSliceVar(&scale.rows, "rows", nil, "rows to measure (default: all, kwok and kubemark if their programs are given)")
	cmd.Flags().Int32Var(&scale.load.pods, "pods", 100, "number of pods in each cluster of the load test, a multiple of 4")
	cmd.Flags().IntVar(&scale.atOnce, "at-once", 4, "maxConcurrency of the upgrade of a set's control planes")
	cmd.Flags().DurationVar(&scale.settle, "settle", settled, "time between the start of a fleet and its measurement")
	cmd.Flags().StringVar(&scale.kwok, "kwok", "", "path of kwok's controller")
	cmd.Flags().StringVar(&scale.kubemark, "kubemark", "", "path of kubemark")
	registerSizes(cmd.Flags(), &scale)
	return cmd
}

// registerSizes registers how many nodes of other kinds there are.
func registerSizes(flags *pflag.FlagSet, o *scaleOptions) {
	flags.IntVar(&o.kwokMachines, "kwok-machines", 1000, "number of Machines of provider kwok")
	flags.IntVar(&o.kwokNodes, "kwok-nodes", 500, "number of nodes of kwok")
	flags.IntVar(&o.kubemarkNodes, "kubemark-nodes", 5, "number of processes of kubemark, one node each")
}

func modeNames() []string {
	var names []string
	for _, mode := range scaleModes {
		names = append(names, mode.name)
	}
	return names
}

// hasMode tells whether to measure a mode, hasRow whether to measure a row.
func (o scaleOptions) hasMode(name string) bool {
	return len(o.modes) == 0 || slices.Contains(o.modes, name)
}

func (o scaleOptions) hasRow(name string) bool {
	switch {
	case len(o.rows) > 0:
		return slices.Contains(o.rows, name)
	case name == rowNodes, name == rowKwokMachines:
		return false
	case name == rowKwok:
		return o.kwok != ""
	case name == rowKubemark:
		return o.kubemark != ""
	}
	return true
}

func (o scaleOptions) validate() error {
	switch {
	case min(o.clusters, o.machines, o.kwokNodes, o.kubemarkNodes, o.kwokMachines, o.atOnce) < 1:
		return errors.New("--clusters, --machines, --kwok-nodes, --kwok-machines, --kubemark-nodes, --at-once: want at least 1 each")
	case slices.ContainsFunc(o.scaleTo, func(n int) bool { return n < 2 }):
		return fmt.Errorf("--scale-to: want 2 or more, got %d", slices.Min(o.scaleTo))
	case o.output != "text" && o.output != "json":
		return fmt.Errorf("--output: want text or json, got %q", o.output)
	case o.hasRow(rowKwok) && o.kwok == "":
		return errors.New("--rows: kwok needs the path of the program: --kwok")
	case o.hasRow(rowKubemark) && o.kubemark == "":
		return errors.New("--rows: kubemark needs the path of the program: --kubemark")
	}
	if err := checkNames("--modes", o.modes, modeNames()); err != nil {
		return err
	}
	if err := checkNames("--rows", o.rows, scaleRows); err != nil {
		return err
	}
	return o.load.check()
}

func checkNames(flag string, names, known []string) error {
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s: want some of %s, got %q", flag, strings.Join(known, ","), name)
		}
	}
	return nil
}

func runScale(ctx context.Context, opts scaleOptions) error {
	if err := opts.validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, opts.timeout, errTimeUp)
	defer cancel()
	report := scaleReport{Clusters: opts.clusters, Machines: opts.machines}
	for _, mode := range scaleModes {
		if opts.hasMode(mode.name) && slices.ContainsFunc(scaleRows, func(row string) bool { return opts.hasRow(row) && row != rowKwok && row != rowKubemark }) {
			figures := scaleFigures{Mode: mode.name}
			figures.measureMode(ctx, opts, mode)
			report.Modes = append(report.Modes, figures)
		}
	}
	for _, one := range listPeers(opts) {
		if opts.hasRow(one.Name) {
			fmt.Fprintf(opts.progress, "measuring %s\n", one.Name)
			report.Peers = append(report.Peers, one.measureOrSayWhy(ctx, opts.options))
		}
	}
	if opts.output == "json" {
		encoder := json.NewEncoder(opts.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	return report.printTable(opts)
}

// part is what one row measures.
type part struct {
	row, name string
	measure   func(context.Context) error
}

// measureMode measures one mode. What fails is named, and the next part is measured all the same.
func (f *scaleFigures) measureMode(ctx context.Context, opts scaleOptions, mode scaleMode) {
	for _, part := range f.listParts(opts, mode) {
		if !opts.hasRow(part.row) {
			continue
		}
		fmt.Fprintf(opts.progress, "%s: measuring %s\n", mode.name, part.name)
		if err := part.measure(ctx); err != nil {
			f.NotMeasured = append(f.NotMeasured, fmt.Sprintf("%s: %v", part.name, err))
		}
	}
}

func (f *scaleFigures) listParts(opts scaleOptions, mode scaleMode) []part {
	parts := []part{
		{rowPlane, "control planes without nodes", func(ctx context.Context) error {
			return withFleet(ctx, opts, mode, opts.clusters, 0, func(ctx context.Context, fleet *upFleet) error {
				f.PlanesUpSeconds = fleet.seconds
				sums, err := measureRest(ctx, opts.options, fleet.readUsage)
				f.Plane = sums[sidePlane].dividedBy(opts.clusters)
				return err
			})
		}},
		{rowFleet, "the fleet", func(ctx context.Context) error {
			return withFleet(ctx, opts, mode, opts.clusters, opts.machines, func(ctx context.Context, fleet *upFleet) error {
				f.UpSeconds = fleet.seconds
				sums, err := measureRest(ctx, opts.options, fleet.readUsage)
				f.PlaneWithNodes, f.Node = sums[sidePlane].dividedBy(opts.clusters), sums[sideNode].dividedBy(opts.clusters*opts.machines)
				f.Fleet = sums[sideAll]
				return err
			})
		}},
	}
	for _, machines := range opts.scaleTo {
		parts = append(parts, part{rowScale, "the scale of one cluster to " + strconv.Itoa(machines), func(ctx context.Context) error {
			return withFleet(ctx, opts, mode, 1, 1, func(ctx context.Context, fleet *upFleet) error {
				seconds, err := fleet.scaleTo(ctx, machines)
				if err == nil {
					f.Scales = append(f.Scales, scaledCluster{machines, seconds})
				}
				return err
			})
		}})
	}
	parts = append(parts, part{rowSets, "the set", func(ctx context.Context) error {
		return withFleet(ctx, opts, mode, 0, 0, func(ctx context.Context, fleet *upFleet) (err error) {
			f.Set, err = measureSet(ctx, opts, fleet)
			return err
		})
	}})
	parts = append(parts, part{rowNodes, "nodes", func(ctx context.Context) (err error) {
		f.Nodes, err = measureNodes(ctx, opts, mode)
		return err
	}}, part{rowKwokMachines, "Machines of provider kwok", func(ctx context.Context) error {
		return withFleet(ctx, opts, mode, 1, 0, func(ctx context.Context, fleet *upFleet) (err error) {
			f.KwokMachines, err = measureKwokMachines(ctx, opts, fleet)
			return err
		})
	}})
	return append(parts, part{rowLoad, "the load test", func(ctx context.Context) (err error) {
		loaded := opts.options
		loaded.profile, loaded.surge, loaded.programs = string(v1alpha1.HollowNodeProfileRealistic), "1", mode.programs
		f.Load, err = measureLoad(ctx, loaded, opts.load)
		return err
	}})
}
