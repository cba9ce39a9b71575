package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

// unitTests is a file of unit tests as promtool reads it, without what the files here do not use. "make test-prometheus" gives them to
// promtool itself.
type unitTests struct {
	RuleFiles          []string   `json:"rule_files"`
	EvaluationInterval string     `json:"evaluation_interval"`
	Tests              []unitTest `json:"tests"`
}

type unitTest struct {
	Name     string `json:"name"`
	Interval string `json:"interval"`
	Series   []struct {
		Series string `json:"series"`
		Values string `json:"values"`
	} `json:"input_series"`
	Checks []struct {
		Expr    string `json:"expr"`
		Time    string `json:"eval_time"`
		Samples []struct {
			Labels string  `json:"labels"`
			Value  float64 `json:"value"`
		} `json:"exp_samples"`
	} `json:"promql_expr_test"`
}

// duration is that of a text such as 15m.
func duration(g *WithT, text string) time.Duration {
	value, err := model.ParseDuration(text)
	g.Expect(err).NotTo(HaveOccurred())
	return time.Duration(value)
}

// run evaluates the rules as promtool does, and returns the alerts that are expected to fire at each check.
func (u unitTest) run(t *testing.T, files []string, every time.Duration) (expected [][]string) {
	t.Helper()
	g := NewWithT(t)
	load := "load " + u.Interval + "\n"
	for _, series := range u.Series {
		load += series.Series + " " + series.Values + "\n"
	}
	storage := promqltest.LoadedStorage(t, load)
	defer func() { _ = storage.Close() }()
	engine := promqltest.NewTestEngine(t, false, 0, 100000)
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(engine, storage), Appendable: storage, Queryable: storage, Context: t.Context(), ExternalURL: &url.URL{},
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: slog.New(slog.DiscardHandler),
	})
	groups, problems := manager.LoadGroups(every, labels.EmptyLabels(), "", nil, false, files...)
	g.Expect(problems).To(BeEmpty())
	at, start := time.Duration(0), time.Unix(0, 0).UTC()
	for _, group := range groups {
		for _, rule := range group.AlertingRules() {
			rule.SetRestored(true) // Else no series tells of the alerts.
		}
	}
	for _, check := range u.Checks {
		for wanted := duration(g, check.Time); at <= wanted; at += every {
			for _, group := range groups {
				group.Eval(t.Context(), start.Add(at))
			}
		}
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, check.Expr, start.Add(duration(g, check.Time)))
		g.Expect(err).NotTo(HaveOccurred())
		vector, err := query.Exec(t.Context()).Vector()
		g.Expect(err).NotTo(HaveOccurred())
		have, want, alerts := []string{}, []string{}, []string{}
		for _, sample := range vector {
			have = append(have, fmt.Sprint(sample.Metric, sample.F))
		}
		for _, sample := range check.Samples {
			metric, err := parser.NewParser(parser.Options{}).ParseMetric(sample.Labels)
			g.Expect(err).NotTo(HaveOccurred())
			want, alerts = append(want, fmt.Sprint(metric, sample.Value)), append(alerts, metric.Get(labels.AlertName))
		}
		g.Expect(have).To(ConsistOf(want), "%s: %s at %s", u.Name, check.Expr, check.Time)
		expected = append(expected, alerts)
	}
	return expected
}

// isTested reports whether an alert fires in one of the tests, and neither before nor at the end.
func isTested(alert string, tests [][][]string) bool {
	return slices.ContainsFunc(tests, func(checks [][]string) bool {
		return len(checks) > 2 && len(checks[0]) == 0 && len(checks[len(checks)-1]) == 0 &&
			slices.ContainsFunc(checks, func(alerts []string) bool { return slices.Equal(alerts, []string{alert}) })
	})
}

// Claim: Each alert of both charts fires and clears in a unit test of promtool's format, and is not pending while all is well. Broken: an expression that is always true; `for` doubled; a test removed. Also: test/integration/prometheus TestPromtool.
func TestEveryAlertFiresAndClears(t *testing.T) {
	for _, o := range both {
		t.Run(o.name, func(t *testing.T) {
			g := NewWithT(t)
			path := filepath.Join("testdata", "rules", o.name+".yaml")
			text, err := os.ReadFile(path)
			g.Expect(err).NotTo(HaveOccurred())
			var file unitTests
			g.Expect(yaml.UnmarshalStrict(text, &file)).To(Succeed())
			for i := range file.RuleFiles {
				file.RuleFiles[i] = filepath.Join(filepath.Dir(path), file.RuleFiles[i])
			}
			var tests [][][]string
			for _, test := range file.Tests {
				tests = append(tests, test.run(t, file.RuleFiles, duration(g, file.EvaluationInterval)))
			}
			for _, check := range file.Tests[0].Checks {
				g.Expect(check.Expr).To(Equal("ALERTS"), "the first test is that of a fleet without a fault")
				g.Expect(check.Samples).To(BeEmpty())
			}
			content, err := os.ReadFile(filepath.Join(root, "charts", o.name, "files", "rules.yaml"))
			g.Expect(err).NotTo(HaveOccurred())
			alerts := 0
			for line := range strings.Lines(string(content)) {
				if name, is := strings.CutPrefix(strings.TrimSpace(line), "- alert: "); is {
					alerts++
					g.Expect(isTested(name, tests)).To(BeTrue(), name)
				}
			}
			g.Expect(alerts).To(BeNumerically(">=", 4))
		})
	}
}
