package preflight

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// The names of the checks.
const (
	Memory    = "memory"
	CPU       = "cpu"
	Inotify   = "inotify"
	OpenFiles = "open-files"
	Tasks     = "tasks"
	Disk      = "disk"
	// All is every check.
	All = "all"
)

// Names are what --ignore-preflight-errors takes.
var Names = []string{Memory, CPU, Inotify, OpenFiles, Tasks, Disk, All}

// Unlimited is what a machine has of something that nothing limits, or whose limit is not known.
const Unlimited = math.MaxInt64

// Report compares what a fleet needs with what a machine has.
type Report struct {
	Needs     Resources `json:"needs"`
	Available Resources `json:"available"`
	// Errors are why the fleet does not fit, Warnings what will not work well.
	Errors   []Problem `json:"errors,omitempty"`
	Warnings []Problem `json:"warnings,omitempty"`
}

// Problem is one resource of which there is too little.
type Problem struct {
	// Check is the name of the check, and Message says what is missing and what helps.
	Check   string `json:"check"`
	Message string `json:"message"`
}

// check is one line of the table.
type check struct {
	name, title     string
	needs, has      int64
	text            func(int64) string
	missing, remedy string
	// of is the resource, if there are ways to need less of it.
	of func(Resources) int64
	// isWarning is that a fleet runs without it, less well.
	isWarning bool
}

// Check compares. What ignored names is a warning and no error.
func Check(fleet Fleet, has Resources, ignored ...string) Report {
	report := Report{Needs: fleet.Needs(), Available: has}
	for _, c := range report.checks() {
		if c.needs <= c.has {
			continue
		}
		if c.of != nil {
			c.remedy = fleet.suggestCheaper(c) + c.remedy
		}
		problem := Problem{Check: c.name, Message: fmt.Sprintf("%s: the fleet needs %s, and %s: %s", c.title, c.text(c.needs), fmt.Sprintf(c.missing, c.text(c.has)), c.remedy)}
		if c.isWarning || isIgnored(c.name, ignored) {
			report.Warnings = append(report.Warnings, problem)
		} else {
			report.Errors = append(report.Errors, problem)
		}
	}
	return report
}

func isIgnored(name string, ignored []string) bool {
	return slices.Contains(ignored, name) || slices.Contains(ignored, All)
}

// suggestCheaper names the first way to start the fleet that needs no more of a resource than there is; empty if none does.
func (f Fleet) suggestCheaper(c check) string {
	for _, way := range f.cheaperWays() {
		if needs := c.of(way.needs); needs <= c.has {
			return fmt.Sprintf("use %s, which needs %s, or ", way.flags, c.text(needs))
		}
	}
	return ""
}

const smaller = "start fewer clusters or machines, or end what else runs here"

func (r Report) checks() []check {
	needs, has := r.Needs, r.Available
	return []check{
		{name: Memory, title: "memory", needs: needs.Memory, has: has.Memory, text: gibibytes, missing: "%s are available", remedy: smaller, of: func(r Resources) int64 { return r.Memory }},
		{name: CPU, title: "CPU at rest", needs: needs.MilliCPU, has: has.MilliCPU, text: processors, missing: "%s may be used", remedy: smaller, of: func(r Resources) int64 { return r.MilliCPU }},
		{
			name: Inotify, title: "inotify instances", needs: needs.Inotify, has: has.Inotify, text: number, missing: "%s of fs.inotify.max_user_instances are left",
			remedy: fmt.Sprintf("otherwise certificates are reread late, and other programs may fail with \"too many open files\". Raise it with: sysctl -w fs.inotify.max_user_instances=$(($(sysctl -n fs.inotify.max_user_instances)+%d))", max(512, needs.Inotify)), isWarning: true,
		},
		{
			name: OpenFiles, title: "open files of a process", needs: needs.OpenFiles, has: has.OpenFiles, text: number, missing: "%s are allowed (ulimit -Hn)",
			remedy: fmt.Sprintf("raise the limit with ulimit -n %d, or in /etc/security/limits.conf, and start a new shell", max(1024, needs.OpenFiles)),
		},
		{
			name: Tasks, title: "processes and threads", needs: needs.Tasks, has: has.Tasks, text: number, missing: "%s more are allowed",
			remedy: "raise ulimit -u or the pids.max of the control group, or " + smaller,
		},
		{name: Disk, title: "disk", needs: needs.Disk, has: has.Disk, text: gibibytes, missing: "%s are free in --dir", remedy: "free some space, or choose another directory"},
	}
}

// Print writes the table.
func (r Report) Print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "RESOURCE\tNEEDED\tAVAILABLE")
	for _, c := range r.checks() {
		available := "unlimited"
		if c.has != Unlimited {
			available = c.text(c.has)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.title, c.text(c.needs), available)
	}
	_ = w.Flush()
}

// Lines joins the messages of problems.
func Lines(problems []Problem) string {
	var lines []string
	for _, problem := range problems {
		lines = append(lines, problem.Message)
	}
	return strings.Join(lines, "\n")
}

func gibibytes(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

func processors(milli int64) string { return fmt.Sprintf("%.2f processors", float64(milli)/1000) }

func number(n int64) string { return fmt.Sprint(n) }
