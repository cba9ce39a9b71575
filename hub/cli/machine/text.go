package machine

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// formatText is the story as lines, after a warning if it is old.
func (s *story) formatText() []string { return append(s.staleLines(), s.storyLines()...) }

// staleLines warn of a story that is old.
func (s *story) staleLines() []string {
	var lines []string
	for _, why := range s.document.Stale {
		lines = append(lines, "This is the last known state: "+oneLine(why))
	}
	return lines
}

// storyLines are the story itself.
func (s *story) storyLines() []string {
	lines := s.headLines()
	for _, fact := range s.facts() {
		if fact.Value != "" {
			lines = append(lines, fmt.Sprintf("%-12s %s", fact.Name+":", oneLine(fact.Value)))
		}
	}
	lines = append(lines, "")
	lines = append(lines, s.conditionLines()...)
	lines = append(lines, "")
	lines = append(lines, s.eventLines()...)
	lines = append(lines, s.logLines()...)
	for _, left := range s.document.Left {
		lines = append(lines, "Left out: "+oneLine(left))
	}
	return lines
}

// headLines say how the Machine is, and what helps.
func (s *story) headLines() []string {
	d := &s.document
	head := fmt.Sprintf("Machine %s/%s: %s", d.Machine.Namespace, d.Machine.Name, d.State)
	if d.State == health.Healthy {
		return []string{head}
	}
	if d.Since != nil {
		head += " since " + s.formatSince(*d.Since) + " ago"
	}
	lines := []string{head + ": " + d.Reason}
	if d.Message != "" {
		lines = append(lines, "  "+oneLine(d.Message))
	}
	if d.Next != "" && !strings.HasPrefix(d.Next, "kubectl describe machine ") { // This screen has more.
		lines = append(lines, "  Next: "+d.Next)
	}
	return lines
}

// facts are what else is known of the Machine.
func (s *story) facts() []cmdutil.Fact {
	m := s.document.Machine
	class := "none, its spec has the configuration"
	if s.document.Class != nil {
		class = s.document.Class.describe()
	}
	node, pod, owners := "not joined yet", "", make([]string, 0, len(s.document.Owners))
	if m.Status.NodeRef != nil {
		node = m.Status.NodeRef.Name
		for _, address := range m.Status.Addresses {
			node += fmt.Sprintf(", %s %s", address.Type, address.Address)
		}
	}
	if p := s.document.Pod; p != nil {
		pod = fmt.Sprintf("%s, running: %s", p.Name, p.Running)
		if p.Running != metav1.ConditionTrue {
			pod += fmt.Sprintf(" (%s) %s", p.Reason, p.Message)
		}
	}
	for _, owner := range s.document.Owners {
		owners = append(owners, owner.Kind+" "+owner.describe())
	}
	return []cmdutil.Fact{
		{Name: "Phase", Value: string(m.Status.Phase)},
		{Name: "Error", Value: strings.TrimSpace(m.Status.ErrorReason + " " + m.Status.ErrorMessage)},
		{Name: "Deleted", Value: s.describeDeletion()},
		{Name: "Cluster", Value: s.document.Cluster.describe()},
		{Name: "Owners", Value: cmp.Or(strings.Join(owners, "; "), "none: nothing replaces this Machine")},
		{Name: "Class", Value: class},
		{Name: "Provider", Value: s.document.Provider},
		{Name: "Kubelet", Value: s.describeKubelet()},
		{Name: "Node", Value: node},
		{Name: "Pod", Value: pod},
		{Name: "Provider ID", Value: ptr.Deref(m.Spec.ProviderID, "")},
		{Name: "Age", Value: s.formatSince(m.CreationTimestamp)},
	}
}

func (s *story) describeDeletion() string {
	m := s.document.Machine
	if m.DeletionTimestamp == nil {
		return ""
	}
	return fmt.Sprintf("%s ago, held by %s", s.formatSince(*m.DeletionTimestamp), cmp.Or(strings.Join(m.Finalizers, ", "), "nothing"))
}

func (s *story) describeKubelet() string {
	wanted, observed := s.document.Machine.Spec.Versions.Kubelet, s.document.Machine.Status.Versions
	if observed == nil {
		return cmp.Or(wanted, "the provider's default") + " wanted"
	}
	text := observed.Kubelet
	if observed.KubeletCode != "" && observed.KubeletCode != observed.Kubelet {
		text += " reported, by code of " + observed.KubeletCode
	}
	if wanted != "" && strings.TrimPrefix(wanted, "v") != strings.TrimPrefix(observed.Kubelet, "v") {
		text += ", " + wanted + " wanted"
	}
	return text
}

// describe is the object's name with its notes.
func (r *Related) describe() string {
	parts := append([]string{r.Name}, r.Notes...)
	if r.Missing {
		parts = append(parts, "which does not exist")
	}
	return strings.Join(parts, ", ")
}

func (s *story) conditionLines() []string {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("Condition", "Status", "Since", "Reason", "Message")}
	for _, c := range s.document.Machine.Status.Conditions {
		since := "-"
		if c.LastTransitionTime.Year() >= 2000 { // The default of a kind's conditions is 1970.
			since = s.formatSince(c.LastTransitionTime)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{c.Type, string(c.Status), since, c.Reason, oneLine(c.Message)}})
	}
	return tableLines(table, "The Machine has no conditions.")
}

func (s *story) eventLines() []string {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("Event", "Ago", "Object", "Reason", "Message")}
	for _, e := range s.document.Events {
		ago := s.formatSince(e.Time)
		if e.Count > 1 {
			ago += fmt.Sprintf(" (x%d)", e.Count)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{e.Type, ago, e.Object, e.Reason, oneLine(e.Message)}})
	}
	return tableLines(table, "No events in the last hour.")
}

// logLines are the end of the log, or why there is none.
func (s *story) logLines() []string {
	log := s.document.Log
	switch {
	case log == nil:
		return nil
	case log.Problem != "":
		return []string{"", "Log: not read: " + oneLine(log.Problem), "  " + strings.ReplaceAll(log.Command, "\n", "\n  ")}
	case len(log.Lines) == 0:
		return []string{"", fmt.Sprintf("Log of pod %s: empty", log.Pod)}
	}
	lines := []string{"", fmt.Sprintf("Log of pod %s, the last %s:", log.Pod, plural.Count(len(log.Lines), "line"))}
	for _, line := range log.Lines {
		lines = append(lines, "  "+oneLine(line))
	}
	return lines
}

// tableLines are a table, or what is said where it has no rows.
func tableLines(table *metav1.Table, empty string) []string {
	if len(table.Rows) == 0 {
		return []string{empty}
	}
	var text bytes.Buffer
	if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, &text); err != nil {
		return []string{err.Error()}
	}
	var lines []string
	for _, line := range strings.Split(strings.TrimRight(text.String(), "\n"), "\n") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

func (s *story) formatSince(at metav1.Time) string {
	return duration.HumanDuration(max(s.now.Sub(at.Time), time.Duration(0)))
}

// oneLine keeps what agents and users wrote from adding lines of its own.
func oneLine(text string) string { return cmdutil.EscapeLine(text) }
