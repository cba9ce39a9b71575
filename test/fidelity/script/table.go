package script

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteTable prints a line for each step, and below it each figure that differs.
func WriteTable(out io.Writer, all []Comparison) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "STEP\tROW\tVERDICT\tRESULT\tCOMPARED\tTIMES, KIND / HOLLOW")
	for _, c := range all {
		detail := timesText(c)
		if c.Result == ResultNotRun {
			detail = c.Step.NotRun
		}
		row, _, _ := strings.Cut(c.Step.Row, ",")
		row, _, _ = strings.Cut(row, " (")
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\n", c.Step.Name, row, c.Step.Verdict, c.Result, c.Compared, detail)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, c := range all {
		for _, d := range c.Differences {
			reason := "NOT DECLARED"
			if d.Because != "" {
				reason = "declared: " + d.Because
			}
			if _, err := fmt.Fprintf(out, "\n%s: %s: %s\n  kind    %s\n  hollow  %s\n", c.Step.Name, d.Figure, reason, d.Real, d.Hollow); err != nil {
				return err
			}
		}
	}
	return nil
}

func timesText(c Comparison) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(c.Real.Times)) {
		if hollow, there := c.Hollow.Times[name]; there {
			all = append(all, fmt.Sprintf("%s %.1f / %.1f s", name, c.Real.Times[name].Seconds(), hollow.Seconds()))
		}
	}
	return strings.Join(all, ", ")
}

// Undeclared counts the steps that differ in what they do not declare.
func Undeclared(all []Comparison) (count int) {
	for _, c := range all {
		if c.Result == ResultDiffers {
			count++
		}
	}
	return count
}
