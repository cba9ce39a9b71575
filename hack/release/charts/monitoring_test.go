package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
)

var metric = regexp.MustCompile(`hollowfleet_[a-z_]+`)

// metricsOf are the metrics that the code of a program names.
func metricsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, name := range regexp.MustCompile(`"(hollowfleet_[a-z_]+)"`).FindAllStringSubmatch(string(content), -1) {
			names[name[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Alerts and panels ask for metrics that the program has.
func TestMonitoringAsksForWhatThereIs(t *testing.T) {
	const all = "metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true"
	for _, o := range both {
		t.Run(o.name, func(t *testing.T) {
			g := NewWithT(t)
			known := metricsOf(t, o.name)
			objects := o.objects(t, all)
			var asked []string
			for _, group := range find[*monitoringv1.PrometheusRule](t, objects, "").Spec.Groups {
				for _, rule := range group.Rules {
					asked = append(asked, rule.Expr.String())
					g.Expect(rule.Annotations).To(And(HaveKey("summary"), HaveKey("description")), rule.Alert)
				}
			}
			var board struct {
				UID    string
				Panels []struct {
					Title   string
					Targets []struct{ Expr, LegendFormat string }
				}
			}
			content := find[*corev1.ConfigMap](t, objects, "hollowfleet-"+o.name+"-dashboard").Data["hollowfleet-"+o.name+".json"]
			g.Expect(json.Unmarshal([]byte(content), &board)).To(Succeed())
			g.Expect(board.UID).To(Equal("hollowfleet-" + o.name))
			for _, panel := range board.Panels {
				for _, target := range panel.Targets {
					asked = append(asked, target.Expr)
				}
			}
			g.Expect(len(asked)).To(BeNumerically(">", 10))
			for _, expression := range asked {
				for _, pair := range []string{"()", "{}", "[]"} {
					g.Expect(strings.Count(expression, pair[:1])).To(Equal(strings.Count(expression, pair[1:])), expression)
				}
				for _, name := range metric.FindAllString(expression, -1) {
					g.Expect(known).To(HaveKey(name), expression)
				}
			}
		})
	}
}

// The alerts of a simulated cluster are about its own agent, whose Service they name, and about metrics that an agent has.
func TestAlertsOfASimulatedClusterAreAboutItsOwnAgent(t *testing.T) {
	g := NewWithT(t)
	objects := simclusterChart.objects(t, "clusterName=c9,metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true")
	served := find[*corev1.Service](t, objects, "r-metrics")
	monitor := find[*monitoringv1.ServiceMonitor](t, objects, "")
	g.Expect(selects(&monitor.Spec.Selector, served.Labels)).To(BeTrue())
	own := fmt.Sprintf(`job=%q,namespace=%q`, served.Name, served.Namespace)
	known := metricsOf(t, "agent")
	groups := find[*monitoringv1.PrometheusRule](t, objects, "").Spec.Groups
	g.Expect(groups).To(HaveLen(1))
	g.Expect(len(groups[0].Rules)).To(BeNumerically(">=", 4))
	for _, rule := range groups[0].Rules {
		expression := rule.Expr.String()
		asked := regexp.MustCompile(`(hollowfleet_[a-z_]+|\bup\b)(.*)`).FindAllStringSubmatch(strings.ReplaceAll(expression, "hollowfleet_", "\nhollowfleet_"), -1)
		g.Expect(asked).NotTo(BeEmpty(), expression)
		for _, match := range asked {
			g.Expect(match[2]).To(HavePrefix("{"+own), "%s asks for %s of this release alone", rule.Alert, match[1])
			if match[1] != "up" {
				g.Expect(known).To(HaveKey(match[1]), expression)
			}
		}
		g.Expect(rule.Labels).To(HaveKeyWithValue("cluster", "c9"), rule.Alert)
		g.Expect(rule.Annotations).To(And(HaveKey("summary"), HaveKey("description")), rule.Alert)
		for _, text := range rule.Annotations {
			g.Expect(text).NotTo(Or(ContainSubstring("CLUSTER"), ContainSubstring("OWN")), rule.Alert)
		}
	}
}
