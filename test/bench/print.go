package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

func (f *figures) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "\n%d clusters, %d Machines each\n", f.Clusters, f.Machines)
	fmt.Fprintf(w, "from scale to all Ready on the hub\t%.1f s\n", f.ReadySeconds)
	printCounts(w, "\nHUB WRITES\tPER MACHINE, CREATION TO READY", f.WritesPerMachine, "%.2f")
	printCounts(w, "\nHUB WRITES AT REST\tPER MINUTE", f.HubWritesPerMinute, "%.1f")
	printCounts(w, "\nWORKLOAD CLUSTER WRITES AT REST\tPER MINUTE", f.TargetWritesPerMinute, "%.1f")
	fmt.Fprintln(w, "\nPROCESS\tCOUNT\tRSS MiB\tMAX\tPRIVATE MiB\tMAX\tCPU s/min AT REST")
	for _, p := range f.Processes {
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\n",
			p.Role, p.Count, p.RSSMiB, p.RSSMaxMiB, p.PrivateMiB, p.PrivateMaxMiB, p.CPUSecondsPerMinute)
	}
	return w.Flush()
}

func printCounts(w io.Writer, heading string, values map[string]float64, format string) {
	fmt.Fprintln(w, heading)
	total := 0.0
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(w, "%s\t"+format+"\n", name, values[name])
		total += values[name]
	}
	fmt.Fprintf(w, "total\t"+format+"\n", total)
}
