package main

import (
	"fmt"
	"text/tabwriter"
)

// peers are figures of other simulators, and where they are from.
const peers = `
kwok 0.8, one process, no kubelets    500 nodes: 25 MiB private, 2.3 CPU s/min
kubemark 1.37, a process per node     one node: 17.7 MiB private, 0.25 CPU s/min
(both measured on a machine of this kind, at rest; docs/cost.md)
`

// printScale prints the table.
func printScale(opts scaleOptions, all []scaleFigures) error {
	w := tabwriter.NewWriter(opts.out, 0, 4, 3, ' ', 0)
	fmt.Fprintf(w, "\n%d clusters, %d Machines each", opts.clusters, opts.machines)
	for _, f := range all {
		fmt.Fprintf(w, "\t%s", f.Mode)
	}
	fmt.Fprintln(w)
	for _, row := range []struct {
		title string
		value func(scaleFigures) string
	}{
		{"control plane without nodes: memory (private)", func(f scaleFigures) string { return f.Plane.memory() }},
		{"control plane without nodes: CPU", func(f scaleFigures) string { return f.Plane.cpu() }},
		{"control plane with its nodes: memory (private)", func(f scaleFigures) string { return f.PlaneWithNodes.memory() }},
		{"control plane with its nodes: CPU", func(f scaleFigures) string { return f.PlaneWithNodes.cpu() }},
		{"node, kubelet's side: memory (private)", func(f scaleFigures) string { return f.Node.memory() }},
		{"node, kubelet's side: CPU", func(f scaleFigures) string { return f.Node.cpu() }},
		{"whole fleet with hub and agents: memory (private)", func(f scaleFigures) string { return f.Fleet.memory() }},
		{"whole fleet with hub and agents: CPU", func(f scaleFigures) string { return f.Fleet.cpu() }},
		{"from local up to all Ready", func(f scaleFigures) string { return seconds(f.UpSeconds) }},
		{fmt.Sprintf("one cluster: from 1 to %d Ready", opts.scaleTo), func(f scaleFigures) string { return seconds(f.ScaleSeconds) }},
	} {
		fmt.Fprint(w, row.title)
		for _, f := range all {
			fmt.Fprintf(w, "\t%s", row.value(f))
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	fmt.Fprintln(opts.out, "\nMemory is Anonymous of smaps_rollup. Private adds the text of programs that only one process maps.")
	fmt.Fprint(opts.out, peers)
	for _, f := range all {
		for _, missing := range f.NotMeasured {
			fmt.Fprintf(opts.out, "\nNot measured with %s: %s\n", f.Mode, missing)
		}
	}
	return nil
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
	return fmt.Sprintf("%.3f s/min", c.CPUSecondsPerMinute)
}

func seconds(s float64) string {
	if s == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f s", s)
}
