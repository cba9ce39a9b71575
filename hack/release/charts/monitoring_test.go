package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
)

// used are the labels that a text refers to, such as {{cluster}} of a legend or {{ $labels.cluster }} of an alert.
var used = regexp.MustCompile(`\{\{ *(?:\$labels\.)?(\w+) *\}\}`)

// expectLabels holds that each label to which texts refer is one of those of the result.
func expectLabels(g *WithT, result map[string]bool, what string, texts ...string) {
	for _, text := range texts {
		for _, match := range used.FindAllStringSubmatch(text, -1) {
			g.Expect(result).To(HaveKey(match[1]), "%s: %s", what, text)
		}
	}
}

// dashboard is what a dashboard asks for.
type dashboard struct {
	UID        string
	Templating struct {
		List []struct {
			Name  string
			Query any
		}
	}
	Panels []struct {
		ID      int
		Title   string
		Targets []struct{ Expr, LegendFormat string }
	}
}

// expectMetrics holds that each panel and each variable asks for metrics and labels that there are.
func (d *dashboard) expectMetrics(g *WithT, check expressions) {
	ids, variables := map[int]bool{}, []string{}
	for _, variable := range d.Templating.List {
		variables = append(variables, "$"+variable.Name, ".*")
		query, is := variable.Query.(map[string]any)
		if !is {
			continue // It chooses a data source.
		}
		parts := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(fmt.Sprint(query["query"]))
		g.Expect(parts).To(HaveLen(3), "%v", query)
		_, err := check.check(fmt.Sprintf("max by (%s) (%s)", parts[2], parts[1]))
		g.Expect(err).NotTo(HaveOccurred(), variable.Name)
	}
	for _, panel := range d.Panels {
		g.Expect(ids).NotTo(HaveKey(panel.ID), panel.Title)
		ids[panel.ID] = true
		for _, target := range panel.Targets {
			expression := strings.NewReplacer(variables...).Replace(target.Expr)
			g.Expect(expression).NotTo(ContainSubstring("$"), "%s: there is no such variable", panel.Title)
			result, err := check.check(expression)
			g.Expect(err).NotTo(HaveOccurred(), panel.Title)
			expectLabels(g, result, panel.Title, target.LegendFormat)
		}
	}
}

// Alerts and panels ask for metrics, labels and values of labels that the programs have.
// Claim: Alerts and dashboards use existing metrics. Broken: a misspelled metric; a phase that is not one; a label renamed in `by`, and in a legend. Also: TestWrongExpressionsAreFound.
// Edge case: A dashboard used missing labels.
func TestMonitoringAsksForWhatThereIs(t *testing.T) {
	const all = "metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true"
	for _, o := range both {
		t.Run(o.name, func(t *testing.T) {
			g := NewWithT(t)
			check := expressions{metricsOf(t, o.name, "libraries")}
			objects := o.objects(t, all)
			groups := find[*monitoringv1.PrometheusRule](t, objects, "").Spec.Groups
			g.Expect(len(groups[0].Rules)).To(BeNumerically(">=", 4))
			for _, group := range groups {
				expectRules(g, check, group.Rules)
			}
			var board dashboard
			content := find[*corev1.ConfigMap](t, objects, "hollowfleet-"+o.name+"-dashboard").Data["hollowfleet-"+o.name+".json"]
			g.Expect(json.Unmarshal([]byte(content), &board)).To(Succeed())
			g.Expect(board.UID).To(Equal("hollowfleet-" + o.name))
			g.Expect(len(board.Panels)).To(BeNumerically(">=", 8))
			board.expectMetrics(g, check)
		})
	}
}

// expectRules holds that rules ask for what there is, and that docs/metrics.md says what to do about each.
func expectRules(g *WithT, check expressions, rules []monitoringv1.Rule) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, rule := range rules {
		g.Expect(rule.Annotations).To(And(HaveKey("summary"), HaveKey("description")), rule.Alert)
		g.Expect(rule.Labels).To(HaveKeyWithValue("severity", BeElementOf("info", "warning", "critical")), rule.Alert)
		result, err := check.check(rule.Expr.String())
		g.Expect(err).NotTo(HaveOccurred(), rule.Alert)
		expectLabels(g, result, rule.Alert, rule.Annotations["summary"], rule.Annotations["description"])
		g.Expect(string(page)).To(ContainSubstring("| `"+rule.Alert+"` | "), "docs/metrics.md says what to do about %s", rule.Alert)
	}
}

// The alerts of a simulated cluster are about its own agent, whose Service they name, and about metrics that an agent has.
// Claim: Simulated clusters' alerts are their own. Broken: a metric of all agents; a misspelled metric; another job; the name of another Service.
func TestAlertsOfASimulatedClusterAreAboutItsOwnAgent(t *testing.T) {
	g := NewWithT(t)
	objects := simclusterChart.objects(t, "clusterName=c9,metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true")
	served := find[*corev1.Service](t, objects, "r-metrics")
	monitor := find[*monitoringv1.ServiceMonitor](t, objects, "")
	g.Expect(selects(&monitor.Spec.Selector, served.Labels)).To(BeTrue())
	own := fmt.Sprintf(`job=%q,namespace=%q`, served.Name, served.Namespace)
	groups := find[*monitoringv1.PrometheusRule](t, objects, "").Spec.Groups
	g.Expect(groups).To(HaveLen(1))
	g.Expect(len(groups[0].Rules)).To(BeNumerically(">=", 4))
	expectRules(g, expressions{metricsOf(t, "agent")}, groups[0].Rules)
	for _, rule := range groups[0].Rules {
		expression := rule.Expr.String()
		asked := regexp.MustCompile(`(hollowfleet_[a-z_]+|\bup\b)(.*)`).FindAllStringSubmatch(strings.ReplaceAll(expression, "hollowfleet_", "\nhollowfleet_"), -1)
		g.Expect(asked).NotTo(BeEmpty(), expression)
		for _, match := range asked {
			g.Expect(match[2]).To(HavePrefix("{"+own), "%s asks for %s of this release alone", rule.Alert, match[1])
		}
		g.Expect(rule.Labels).To(HaveKeyWithValue("cluster", "c9"), rule.Alert)
		for _, text := range rule.Annotations {
			g.Expect(text).NotTo(Or(ContainSubstring("CLUSTER"), ContainSubstring("OWN")), rule.Alert)
		}
	}
}
