package report

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/hollowfleet/hollowfleet/internal/plural"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/observe"
)

// mostDrains is how many drains a text lists.
const mostDrains = 20

// WriteText writes the report for a terminal.
func (r *Report) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	fmt.Fprintf(w, "%s: %s\n", r.Verdict, r.Message)
	fmt.Fprintf(w, "Control plane %s to %s, kubelets to %s; %s, drains up to %s\n", r.Versions.From, r.Versions.To, r.Versions.Kubelet, r.Strategy.describe(), r.Strategy.DrainTimeout.Duration)
	fmt.Fprintf(w, "%s, %s with %s; %d of %d Ready pods are there in the rehearsal\n", plural.Count(r.Source.Nodes, "Node"), plural.Count(r.Source.Workloads, "workload"), plural.Count(r.Source.Budgets, "PodDisruptionBudget"), r.Source.RehearsedPods, r.Source.Pods)
	for _, one := range r.Kubelets {
		fmt.Fprintf(w, "Nodes of version %s ran the kubelet code of %s\n", one.Version, one.Code)
	}
	for _, finding := range r.Findings {
		fmt.Fprintf(w, "  - %s\n", finding)
	}
	if len(r.Phases) > 0 {
		fmt.Fprintln(w, "\nSTEP\tTOOK")
		for _, phase := range r.Phases {
			fmt.Fprintf(w, "%s\t%s\n", phase.Name, withFailure(phase.Duration.Duration.String(), phase.Failure))
		}
	}
	if r.Outage.Duration > 0 {
		fmt.Fprintf(w, "The simulated API server did not answer for %s.\n", r.Outage.Duration)
	}
	r.writeBudgets(w)
	r.writeDrains(w)
	if len(r.Workloads) > 0 {
		fmt.Fprintln(w, "\nWORKLOAD WITH FEWER READY PODS\tBEFORE\tLOWEST\tFEWER FOR\tNONE FOR")
		for _, one := range r.Workloads {
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", one.Workload, one.Want, one.Lowest, one.Missing.Duration, one.None.Duration)
		}
	}
	writeUnscheduled(w, "NOT SCHEDULED BEFORE THE UPGRADE", r.NotScheduledBefore)
	writeUnscheduled(w, "NOT SCHEDULED AFTER THE UPGRADE", r.NotScheduledAfter)
	writeLines(w, "Different from the cluster:", r.Differences)
	writeLines(w, "What a rehearsal cannot know:", r.Unknown)
	return w.Flush()
}

func (s *Strategy) describe() string {
	if s.MaxSurge == "" {
		return fmt.Sprintf("%s, maxUnavailable %s", s.Type, s.MaxUnavailable)
	}
	return fmt.Sprintf("%s, maxSurge %s, maxUnavailable %s", s.Type, s.MaxSurge, s.MaxUnavailable)
}

func withFailure(text, failure string) string {
	if failure == "" {
		return text
	}
	return text + ", failed: " + failure
}

func (r *Report) writeBudgets(w io.Writer) {
	if len(r.Budgets) == 0 {
		return
	}
	fmt.Fprintln(w, "\nBUDGET\tDRAINS HELD\tLONGEST\tTOTAL\tTIMED OUT\tNEVER ALLOWS ONE, BECAUSE")
	for _, one := range r.Budgets {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%s\n", one.Name, one.Drains, one.Longest.Duration, one.Total.Duration, one.TimedOut, one.Never)
	}
}

func (r *Report) writeDrains(w io.Writer) {
	if len(r.Drains) == 0 {
		return
	}
	fmt.Fprintln(w, "\nDRAIN OF NODE\tGROUP\tAFTER\tTOOK\tOUTCOME\tHELD BY")
	for index := range r.Drains[:min(len(r.Drains), mostDrains)] {
		one := &r.Drains[index]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", one.Node, one.Group, one.After.Duration, one.Duration.Duration, one.Outcome, one.HeldBy())
	}
	if more := len(r.Drains) - mostDrains; more > 0 {
		fmt.Fprintf(w, "… and %s more: -o json has all\n", plural.Count(more, "drain"))
	}
}

// HeldBy names the budgets that have held up a drain.
func (d *Drain) HeldBy() string {
	text := ""
	for _, block := range d.Blocks {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s %s", block.Budget, block.Duration.Duration)
	}
	if text == "" {
		return "-"
	}
	return text
}

func writeUnscheduled(w io.Writer, heading string, pods []observe.Unscheduled) {
	if len(pods) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\tPODS\tREASON\n", heading)
	for _, one := range pods {
		fmt.Fprintf(w, "%s\t%d\t%s\n", one.Workload, one.Pods, one.Reason)
	}
}

func writeLines(w io.Writer, heading string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", heading)
	for _, line := range lines {
		fmt.Fprintf(w, "  - %s\n", line)
	}
}
