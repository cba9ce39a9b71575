package prometheus

import (
	"encoding/json"
	"net/url"
	"os"
	"regexp"
	"strings"

	. "github.com/onsi/gomega"
)

// dashboard is what a dashboard asks for.
type dashboard struct {
	Templating struct {
		List []struct {
			Name  string
			Query any
		}
	}
	Panels []struct {
		Title   string
		Targets []struct{ Expr, LegendFormat string }
	}
}

// inLegends are the labels that a legend shows.
var inLegends = regexp.MustCompile(`\{\{ *(\w+) *\}\}`)

// expectDashboard holds that each variable has values, and each query of each panel returns something, with the labels that its legend shows.
func (w *world) expectDashboard(path string) {
	w.t.Helper()
	content, err := os.ReadFile(path)
	w.Expect(err).NotTo(HaveOccurred())
	var board dashboard
	w.Expect(json.Unmarshal(content, &board)).To(Succeed())
	variables := []string{}
	for _, variable := range board.Templating.List {
		query, is := variable.Query.(map[string]any)
		if !is {
			continue // It chooses a data source.
		}
		variables = append(variables, "$"+variable.Name, ".*")
		parts := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(query["query"].(string))
		w.Expect(parts).To(HaveLen(3))
		found, err := w.queryAll("count by (" + parts[2] + ") (" + parts[1] + ")")
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(found).NotTo(BeEmpty(), "the variable %s has values", variable.Name)
	}
	queries, empty := 0, []string{}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			queries++
			found, err := w.queryAll(strings.NewReplacer(variables...).Replace(target.Expr))
			w.Expect(err).NotTo(HaveOccurred(), panel.Title)
			if len(found) == 0 {
				empty = append(empty, panel.Title+": "+target.Expr)
			}
			for _, label := range inLegends.FindAllStringSubmatch(target.LegendFormat, -1) {
				for _, one := range found {
					w.Expect(one.Metric).To(HaveKeyWithValue(label[1], Not(BeEmpty())), "%s: the legend %s", panel.Title, target.LegendFormat)
				}
			}
		}
	}
	w.Expect(empty).To(BeEmpty(), "panels that show nothing, although the fleet has failed in every way")
	w.t.Logf("%s: %d panels, %d queries", path, len(board.Panels), queries)
}

// expectTargets holds that Prometheus scrapes the hub and each agent, with the labels that alerts and dashboards ask for.
func (w *world) expectTargets() {
	w.t.Helper()
	var data struct {
		ActiveTargets []struct {
			Labels map[string]string
			Health string
		}
	}
	w.Expect(w.ask("targets", url.Values{}, &data)).To(Succeed())
	labels := []string{}
	for _, target := range data.ActiveTargets {
		labels = append(labels, target.Labels["job"]+" "+target.Labels["namespace"]+" "+target.Labels["cluster"])
	}
	w.Expect(labels).To(ConsistOf("hollowfleet-hub hollowfleet-system ", "hollowfleet-agent host host", "hollowfleet-agent local-0 local-0", "hollowfleet-agent local-1 local-1"))
}
