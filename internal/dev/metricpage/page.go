// Package metricpage holds docs/metrics.md against what programs tell Prometheus. The page is also what the expressions of alerts
// and dashboards are held against, by hack/release/charts, which cannot run the programs.
package metricpage

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/hollowfleet/hollowfleet/internal/dev/repository"
)

// free are the labels whose values no program knows in advance.
var free = []string{"cluster", "fleet", "load_test", "version", "goversion", "controller", "le", "name", "priority", "provider"}

// open are labels of one metric each that have more values than a scrape shows.
var open = map[string][]string{
	"hollowfleet_hub_frozen_objects": {"kind", "reason"}, "hollowfleet_hub_frozen_longest_seconds": {"kind", "reason"},
}

// findPage returns the path of the page in the repository of the working directory.
func findPage() (string, error) {
	root, err := repository.FindRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "docs", "metrics.md"), nil
}

// Scrape is what a program tells Prometheus.
type Scrape struct {
	text     string
	families map[string]*dto.MetricFamily
}

// Parse reads what was scraped.
func Parse(text string) (*Scrape, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading what was scraped: %w", err)
	}
	return &Scrape{text, families}, nil
}

// Own are the names of the metrics that are Hollowfleet's own.
func (s *Scrape) Own() []string {
	var names []string
	for name := range s.families {
		if strings.HasPrefix(name, "hollowfleet_") {
			names = append(names, name)
		}
	}
	return slices.Sorted(slices.Values(names))
}

// Lint says what is wrong with the names and the help of Hollowfleet's own metrics.
func (s *Scrape) Lint() ([]promlint.Problem, error) {
	problems, err := promlint.New(bytes.NewBufferString(s.text)).Lint()
	return slices.DeleteFunc(problems, func(p promlint.Problem) bool { return !strings.HasPrefix(p.Metric, "hollowfleet_") }), err
}

// Value is that of the metric that has these labels, such as "cluster=c1", and no others but free ones.
func (s *Scrape) Value(name string, labels ...string) (value float64, found bool) {
	for _, metric := range s.families[name].GetMetric() {
		have := map[string]bool{}
		for _, pair := range metric.GetLabel() {
			have[pair.GetName()+"="+pair.GetValue()] = true
		}
		if !slices.ContainsFunc(labels, func(label string) bool { return !have[label] }) {
			return metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount()), true
		}
	}
	return 0, false
}

// Rows are the rows of the page's table for these metrics, by name.
func (s *Scrape) Rows(names []string) string {
	var rows strings.Builder
	rows.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, name := range names {
		family := s.families[name]
		values := map[string]map[string]bool{}
		for _, metric := range family.GetMetric() {
			for _, pair := range metric.GetLabel() {
				if values[pair.GetName()] == nil {
					values[pair.GetName()] = map[string]bool{}
				}
				values[pair.GetName()][pair.GetValue()] = true
			}
		}
		var labels []string
		for _, label := range slices.Sorted(maps.Keys(values)) {
			text := "`" + label + "`"
			if !slices.Contains(free, label) && !slices.Contains(open[name], label) {
				text += ": " + strings.Join(slices.Sorted(maps.Keys(values[label])), ", ")
			}
			labels = append(labels, text)
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", name, strings.ToLower(family.GetType().String()), strings.Join(labels, "; "), family.GetHelp())
	}
	return rows.String()
}

// Section returns a part of the page, between the marks "<!-- of NAME -->" and "<!-- end -->".
func Section(page, name string) (string, error) {
	_, rest, found := strings.Cut(page, markMetric(name))
	section, _, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", fmt.Errorf("the page has no section %s", markMetric(name))
	}
	return section, nil
}

const end = "<!-- end -->"

func markMetric(name string) string { return "<!-- of " + name + " -->\n" }

// Compare holds a section of the page against rows. With write it writes them there instead.
func Compare(name, rows string, write bool) error {
	path, err := findPage()
	if err != nil {
		return err
	}
	page, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the page: %w", err)
	}
	have, err := Section(string(page), name)
	if err != nil {
		return err
	}
	if have == rows {
		return nil
	}
	if write {
		replaced := strings.Replace(string(page), markMetric(name)+have, markMetric(name)+rows, 1)
		return os.WriteFile(path, []byte(replaced), 0o644) //nolint:gosec // a page of the documentation
	}
	return fmt.Errorf("docs/metrics.md, section %q, is not what the program tells; run the test again with -update.\nonly on the page:\n%s\nonly told:\n%s",
		name, missingLines(have, rows), missingLines(rows, have))
}

// missingLines are the lines of one text that another does not have.
func missingLines(from, in string) string {
	lines := strings.Split(from, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(in, line) }), "\n")
}
