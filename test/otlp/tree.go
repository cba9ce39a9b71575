package otlp

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// Tree draws the spans of one trace for people: each below its parent, with when it started and how long it took, in milliseconds since
// the first.
func Tree(spans []Span) string {
	if len(spans) == 0 {
		return "no spans"
	}
	children, known := map[string][]Span{}, map[string]bool{}
	for _, span := range spans {
		known[span.ID] = true
	}
	for _, span := range spans {
		parent := span.Parent
		if !known[parent] {
			parent = ""
		}
		children[parent] = append(children[parent], span)
	}
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SPAN\tPROCESS\tBEGINS\tTAKES\tOBJECT")
	draw(table, children, "", 0, spans[0].Start)
	_ = table.Flush() // A Builder takes everything.
	return out.String()
}

func draw(table *tabwriter.Writer, children map[string][]Span, parent string, depth int, first time.Time) {
	for _, span := range children[parent] {
		object := ""
		for _, kind := range []string{"machine_fleet", "machine_deployment", "machine_set", "machine"} {
			if name := span.Attributes["hollowfleet."+kind]; name != "" {
				object = span.Attributes["hollowfleet.cluster"] + "/" + name
			}
		}
		fmt.Fprintf(table, "%s%s\t%s\t%d ms\t%d ms\t%s\n", strings.Repeat("  ", depth), span.Name, strings.TrimPrefix(span.Service, "hollowfleet-"),
			span.Start.Sub(first).Milliseconds(), span.End.Sub(span.Start).Milliseconds(), object)
		draw(table, children, span.ID, depth+1, first)
	}
}
