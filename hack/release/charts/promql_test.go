package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// known is a metric as docs/metrics.md has it, which tests of hub and agent hold against what these tell: the values of each label;
// nil for a label that may have any.
type known map[string][]string

// targetLabels are those that Prometheus adds to all that it scrapes.
var targetLabels = []string{"job", "namespace", "instance", "pod", "service", "endpoint", "container"}

// metricsOf are the metrics of sections of docs/metrics.md.
func metricsOf(t *testing.T, sections ...string) map[string]known {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]known{"up": {}}
	for _, name := range sections {
		_, rest, found := strings.Cut(string(content), "<!-- of "+name+" -->\n")
		section, _, ended := strings.Cut(rest, "<!-- end -->")
		if !found || !ended {
			t.Fatalf("docs/metrics.md has no section of %s", name)
		}
		for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_:]+)` \\| (\\w+) \\| (.*?) \\|").FindAllStringSubmatch(section, -1) {
			metric := known{}
			for _, label := range regexp.MustCompile("`(\\w+)`(?:: ([^;]*))?").FindAllStringSubmatch(row[3], -1) {
				metric[label[1]] = nil
				if label[2] != "" {
					metric[label[1]] = strings.Split(label[2], ", ")
				}
			}
			all[row[1]] = metric
			if row[2] == "histogram" {
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					all[row[1]+suffix] = maps.Clone(metric)
				}
				all[row[1]+"_bucket"]["le"] = nil
			}
		}
	}
	return all
}

// expressions judges PromQL against the metrics that there are.
type expressions struct{ metrics map[string]known }

// check parses an expression and returns the labels of its result. Every metric, every label that is matched, grouped or joined by, and
// every value that a label is compared with has to be one that a program tells.
func (e expressions) check(text string) (map[string]bool, error) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	result, err := e.labelsOf(parsed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return result, nil
}

func (e expressions) labelsOf(expression parser.Expr) (map[string]bool, error) {
	switch x := expression.(type) {
	case *parser.VectorSelector:
		return e.selected(x)
	case *parser.MatrixSelector:
		return e.labelsOf(x.VectorSelector)
	case *parser.SubqueryExpr:
		return e.labelsOf(x.Expr)
	case *parser.ParenExpr:
		return e.labelsOf(x.Expr)
	case *parser.UnaryExpr:
		return e.labelsOf(x.Expr)
	case *parser.StepInvariantExpr:
		return e.labelsOf(x.Expr)
	case *parser.NumberLiteral, *parser.StringLiteral:
		return map[string]bool{}, nil
	case *parser.Call:
		result := map[string]bool{}
		for _, argument := range x.Args {
			inner, err := e.labelsOf(argument)
			if err != nil {
				return nil, err
			}
			maps.Copy(result, inner)
		}
		return result, nil
	case *parser.AggregateExpr:
		inner, err := e.labelsOf(x.Expr)
		if err != nil {
			return nil, err
		}
		return grouped(inner, x.Grouping, x.Without)
	case *parser.BinaryExpr:
		return e.joined(x)
	}
	return nil, fmt.Errorf("%T: the test does not know such expressions", expression)
}

// grouped are the labels of a result that is grouped by labels, or without them.
func grouped(inner map[string]bool, by []string, without bool) (map[string]bool, error) {
	result := map[string]bool{}
	if without {
		result = maps.Clone(inner)
	}
	for _, label := range by {
		if !inner[label] {
			return nil, fmt.Errorf("grouped by %s, which what is aggregated does not have: it has %v", label, slices.Sorted(maps.Keys(inner)))
		}
		if without {
			delete(result, label)
		} else {
			result[label] = true
		}
	}
	return result, nil
}

// joined are the labels of what an operator makes of two sides.
func (e expressions) joined(x *parser.BinaryExpr) (map[string]bool, error) {
	left, err := e.labelsOf(x.LHS)
	if err != nil {
		return nil, err
	}
	right, err := e.labelsOf(x.RHS)
	if err != nil {
		return nil, err
	}
	if x.LHS.Type() != parser.ValueTypeVector {
		return right, nil
	}
	if x.RHS.Type() != parser.ValueTypeVector {
		return left, nil
	}
	for _, label := range x.VectorMatching.MatchingLabels {
		if !left[label] || !right[label] {
			return nil, fmt.Errorf("matched on %s, which not both sides have: %v and %v", label, slices.Sorted(maps.Keys(left)), slices.Sorted(maps.Keys(right)))
		}
	}
	if !x.VectorMatching.On && len(x.VectorMatching.MatchingLabels) == 0 && !maps.Equal(left, right) {
		return nil, fmt.Errorf("the sides have other labels, so that nothing matches: %v and %v", slices.Sorted(maps.Keys(left)), slices.Sorted(maps.Keys(right)))
	}
	return left, nil
}

func (e expressions) selected(selector *parser.VectorSelector) (map[string]bool, error) {
	metric, exists := e.metrics[selector.Name]
	if !exists {
		return nil, fmt.Errorf("no program has the metric %s", selector.Name)
	}
	result := map[string]bool{}
	for _, label := range targetLabels {
		result[label] = true
	}
	for label := range metric {
		result[label] = true
	}
	for _, matcher := range selector.LabelMatchers {
		if matcher.Name == "__name__" || slices.Contains(targetLabels, matcher.Name) {
			continue
		}
		values, exists := metric[matcher.Name]
		if !exists {
			return nil, fmt.Errorf("%s has no label %s: it has %v", selector.Name, matcher.Name, slices.Sorted(maps.Keys(metric)))
		}
		if err := checkValues(matcher, values); err != nil {
			return nil, fmt.Errorf("%s: %w", selector.Name, err)
		}
	}
	return result, nil
}

// checkValues holds what a label is compared with against its values; nil are any.
func checkValues(matcher *labels.Matcher, values []string) error {
	if values == nil {
		return nil
	}
	wanted := []string{matcher.Value}
	if matcher.Type == labels.MatchRegexp || matcher.Type == labels.MatchNotRegexp {
		wanted = strings.Split(matcher.Value, "|")
	}
	for _, one := range wanted {
		pattern, err := regexp.Compile("^(?:" + one + ")$")
		if err != nil {
			return fmt.Errorf("%s: %w", matcher, err)
		}
		if !slices.ContainsFunc(values, pattern.MatchString) {
			return fmt.Errorf("%s: no value of the label is %q: they are %v", matcher, one, values)
		}
	}
	return nil
}

// The check above is no use unless it finds what is wrong.
func TestWrongExpressionsAreFound(t *testing.T) {
	check := expressions{map[string]known{
		"up": {}, "clusters": {"fleet": nil, "phase": {"Soaking", "Updated"}}, "held": {"fleet": nil}, "took_bucket": {"le": nil, "reason": {"A"}},
	}}
	for expression, problem := range map[string]string{
		`max by (fleet) (held) > 0`: "",
		`max by (fleet) (clusters{phase="Soaking",job="hub"}) > 0 and on (fleet) max by (fleet) (held) == 0`: "",
		`sum(increase(clusters{phase=~"Soaking|Up.*"}[5m])) by (phase)`:                                      "",
		`histogram_quantile(0.9, sum by (le) (rate(took_bucket[5m])))`:                                       "",
		`absent(up{job="hub"} == 1)`:                   "",
		`time() - max by (fleet) (held) > 900`:         "",
		`max by (fleet (held)`:                         "parse error",
		`heldd`:                                        "no program has the metric heldd",
		`clusters{stage="Soaking"}`:                    "clusters has no label stage: it has [fleet phase]",
		`clusters{phase="Soak"}`:                       `no value of the label is "Soak"`,
		`clusters{phase!="Soak"}`:                      `no value of the label is "Soak"`,
		`clusters{phase=~"Soaking|Waiting"}`:           `no value of the label is "Waiting"`,
		`max by (cluster) (held)`:                      "grouped by cluster",
		`sum without (phase) (held)`:                   "grouped by phase",
		`max by (phase) (max by (fleet) (clusters))`:   "grouped by phase",
		`clusters and on (phase) held`:                 "matched on phase",
		`max by (fleet, phase) (clusters) > max(held)`: "the sides have other labels",
		`rate(took_bucket{reason="B"}[5m])`:            `no value of the label is "B"`,
	} {
		_, err := check.check(expression)
		switch {
		case problem == "" && err != nil:
			t.Errorf("%s: %v", expression, err)
		case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
			t.Errorf("%s: %v, want %s", expression, err, problem)
		}
	}
}
