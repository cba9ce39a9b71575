package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// print leaves out what was not measured, and names it at the end.
func (f *figures) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "\n%d clusters, %d Machines each\n", f.Clusters, f.Machines)
	if f.ExistSeconds > 0 {
		fmt.Fprintf(w, "from scale until all exist on the hub\t%.1f s\n", f.ExistSeconds)
	}
	if f.ReadySeconds > 0 {
		fmt.Fprintf(w, "from scale to all Ready on the hub\t%.1f s\n", f.ReadySeconds)
	} else {
		fmt.Fprintf(w, "Ready on the hub in the end\t%d of %d\n", f.MachinesReady, f.Clusters*f.Machines)
	}
	printCPU(w, f.CPUSecondsPerMachine)
	if f.WritesPerMachine != nil {
		printCounts(w, "\nHUB WRITES\tPER MACHINE, CREATION TO READY", f.WritesPerMachine, "%.2f")
		fmt.Fprintf(w, "of the Machine itself\t%.2f\n", ownWrites(f.WritesPerMachine))
	}
	if f.Roll != nil {
		f.Roll.show(w, f.Clusters*f.Machines)
	}
	if f.HubWritesPerMinute != nil {
		f.printRest(w)
	}
	if len(f.NotReached) > 0 {
		fmt.Fprintf(w, "\nNot reached: %s\n", strings.Join(f.NotReached, ", "))
	}
	return w.Flush()
}

func (f *figures) printRest(w io.Writer) {
	printCounts(w, "\nHUB WRITES AT REST\tPER MINUTE", f.HubWritesPerMinute, "%.1f")
	printCounts(w, "\nWORKLOAD CLUSTER WRITES AT REST\tPER MINUTE", f.TargetWritesPerMinute, "%.1f")
	fmt.Fprintln(w, "\nPROCESS\tCOUNT\tRSS MiB\tMAX\tPRIVATE MiB\tMAX\tCPU s/min AT REST")
	for _, p := range f.Processes {
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\n",
			p.Role, p.Count, p.RSSMiB, p.RSSMaxMiB, p.PrivateMiB, p.PrivateMaxMiB, p.CPUSecondsPerMinute)
	}
}

// ownWrites are those of the Machine object; what else is written is shared by many.
func ownWrites(counts map[string]float64) float64 {
	own := 0.0
	for name, count := range counts {
		if strings.HasPrefix(name, "machines ") || strings.HasPrefix(name, "machines/") {
			own += count
		}
	}
	return own
}

func (r *rollFigures) show(w io.Writer, machines int) {
	if r.Rolled < machines {
		fmt.Fprintf(w, "\nrolling update of %d of %d Machines, surge %s, not finished\t%.1f s\n", r.Rolled, machines, r.Surge, r.Seconds)
	} else {
		fmt.Fprintf(w, "\nrolling update of all Machines, surge %s\t%.1f s\n", r.Surge, r.Seconds)
	}
	fmt.Fprintf(w, "a Machine's way from creation to Ready, average\t%.1f s\n", r.JoinSeconds)
	fmt.Fprintf(w, "a Machine's way from deletion to gone, average\t%.1f s\n", r.RemoveSeconds)
	fmt.Fprintf(w, "the hub's answer, average: a deletion after Ready / a creation after gone\t%.2f s / %.2f s\n",
		r.AnswerSeconds.ReadyToDeletion, r.AnswerSeconds.GoneToCreation)
	if r.IdealSeconds > 0 {
		fmt.Fprintf(w, "machines / surge x (join + removal)\t%.1f s; the update took %.0f %% of that\n", r.IdealSeconds, 100*r.Seconds/r.IdealSeconds)
	}
	printCPU(w, r.CPUSecondsPerMachine)
	fmt.Fprintf(w, "most Machines at once / fewest Ready, of one cluster\t%d / %d\n", r.MostMachines, r.FewestReady)
	if r.WritesPerMachine != nil {
		printCounts(w, "\nHUB WRITES\tPER REPLACED MACHINE", r.WritesPerMachine, "%.2f")
	}
}

func printCPU(w io.Writer, used map[string]float64) {
	for _, role := range slices.Sorted(maps.Keys(used)) {
		fmt.Fprintf(w, "CPU of %s per Machine\t%.1f ms\n", role, 1000*used[role])
	}
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
