package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// scaleLine is one line of the table.
type scaleLine struct {
	row, title string
	value      func(scaleFigures) string
}

// print prints the table of the modes, that of the peers, and what was not measured.
func (r scaleReport) printTable(opts scaleOptions) error {
	w := tabwriter.NewWriter(opts.out, 0, 4, 3, ' ', 0)
	if len(r.Modes) > 0 {
		r.printModes(w, opts)
	}
	if len(r.Peers) > 0 {
		r.printPeers(w)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	fmt.Fprintln(opts.out, "\nMemory is Anonymous of smaps_rollup. Private adds the text of programs that only one process maps.")
	for _, f := range r.Modes {
		for _, missing := range f.NotMeasured {
			fmt.Fprintf(opts.out, "\nNot measured with %s: %s\n", f.Mode, missing)
		}
	}
	for _, p := range r.Peers {
		if p.NotMeasured != "" {
			fmt.Fprintf(opts.out, "\nNot measured: %s: %s\n", p.Name, p.NotMeasured)
		}
	}
	return nil
}

func (r scaleReport) printModes(w io.Writer, opts scaleOptions) {
	fmt.Fprintf(w, "\n%d clusters, %d Machines each", r.Clusters, r.Machines)
	for _, f := range r.Modes {
		fmt.Fprintf(w, "\t%s", f.Mode)
	}
	fmt.Fprintln(w)
	for _, line := range scaleLines(opts) {
		if !opts.hasRow(line.row) {
			continue
		}
		fmt.Fprint(w, line.title)
		for _, f := range r.Modes {
			fmt.Fprintf(w, "\t%s", line.value(f))
		}
		fmt.Fprintln(w)
	}
}

func scaleLines(opts scaleOptions) []scaleLine {
	lines := []scaleLine{
		{rowPlane, "control plane without nodes: memory (private)", func(f scaleFigures) string { return f.Plane.memory() }},
		{rowPlane, "control plane without nodes: CPU", func(f scaleFigures) string { return f.Plane.cpu() }},
		{rowPlane, "control planes without nodes: local up", func(f scaleFigures) string { return seconds(f.PlanesUpSeconds) }},
		{rowFleet, "control plane with its nodes: memory (private)", func(f scaleFigures) string { return f.PlaneWithNodes.memory() }},
		{rowFleet, "control plane with its nodes: CPU", func(f scaleFigures) string { return f.PlaneWithNodes.cpu() }},
		{rowFleet, "node, kubelet's side: memory (private)", func(f scaleFigures) string { return f.Node.memory() }},
		{rowFleet, "node, kubelet's side: CPU", func(f scaleFigures) string { return f.Node.cpu() }},
		{rowFleet, "whole fleet with hub and agents: memory (private)", func(f scaleFigures) string { return f.Fleet.memory() }},
		{rowFleet, "whole fleet with hub and agents: CPU", func(f scaleFigures) string { return f.Fleet.cpu() }},
		{rowFleet, "from local up to all Ready", func(f scaleFigures) string { return seconds(f.UpSeconds) }},
	}
	for _, machines := range opts.scaleTo {
		lines = append(lines, scaleLine{rowScale, fmt.Sprintf("one cluster: from 1 to %d Ready", machines), func(f scaleFigures) string { return f.scaledTo(machines) }})
	}
	lines = append(lines, setLines(opts)...)
	lines = append(lines, nodeLines()...)
	lines = append(lines, kwokMachineLines(opts)...)
	load := fmt.Sprintf("load test, %d pods: ", int(opts.load.pods)*opts.clusters)
	for _, line := range []struct {
		title string
		value func(*loadFigures) string
	}{
		{fmt.Sprintf("verdict at %s", opts.load.readyWithin), func(f *loadFigures) string { return string(f.Verdict) }},
		{"pods Ready within (99 %)", (*loadFigures).podReadyP99},
		{"processors busy", func(f *loadFigures) string { return fmt.Sprintf("%d %%", f.CPUBusyPercent) }},
	} {
		lines = append(lines, scaleLine{rowLoad, load + line.title, func(f scaleFigures) string {
			if f.Load == nil {
				return "-"
			}
			return line.value(f.Load)
		}})
	}
	return lines
}

func (r scaleReport) printPeers(w io.Writer) {
	fmt.Fprintln(w, "\nother simulators\tnodes (processes)\tall: memory (private)\tall: CPU\ta node: memory\ta node: CPU")
	for _, p := range r.Peers {
		fmt.Fprintln(w, strings.Join([]string{
			strings.TrimSpace(p.Name + " " + p.Version), fmt.Sprintf("%d (%d)", p.Nodes, p.Processes), p.Total.memory(), p.Total.cpu(), p.Node.memory(), p.Node.cpu(),
		}, "\t"))
	}
}

// scaledTo is "-" if it was not measured.
func (f *scaleFigures) scaledTo(machines int) string {
	for _, one := range f.Scales {
		if one.Machines == machines {
			return seconds(one.Seconds)
		}
	}
	return "-"
}

// podReadyP99 is "-" if no pod was Ready.
func (f *loadFigures) podReadyP99() string {
	for _, result := range f.Results {
		if result.Measurement == v1alpha1.LoadPodReady {
			return fmt.Sprintf("%.1f s", result.P99.Seconds())
		}
	}
	return "-"
}

// memory is "-" if it was not measured.
func (c cost) memory() string {
	if c.AnonymousMiB == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4g (%.4g) MiB", c.AnonymousMiB, c.PrivateMiB)
}

func (c cost) cpu() string {
	if c.AnonymousMiB == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3g s/min", c.CPUSecondsPerMinute)
}

func seconds(s float64) string {
	if s == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f s", s)
}
