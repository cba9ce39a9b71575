package main

import (
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
)

// A release that was installed from the first version of its chart is upgraded with --reuse-values by helm itself. What it makes is
// what an installation with the same values makes.
// Claim: Old releases upgrade with `--reuse-values`. Broken: the template that adds missing values removed. Also: TestAMissingValueIsTheDefault, TestAnEmptyValueIsNotMissing.
func TestAReleaseOfTheFirstChartIsUpgradedWithReuseValues(t *testing.T) {
	for _, o := range all {
		t.Run(o.name, func(t *testing.T) {
			g := NewWithT(t)
			values, err := chartutil.ReadValuesFile("testdata/earlier/" + o.name + ".yaml")
			g.Expect(err).NotTo(HaveOccurred())
			earlier := &chart.Chart{Metadata: &chart.Metadata{APIVersion: "v2", Name: "hollowfleet-" + o.name, Version: "0.0.1", AppVersion: "earlier"}, Values: values}
			g.Expect(o.upgrade(t, earlier, o.values(t, ""))).To(Equal(o.install(t, o.load(t), o.values(t, ""))))
		})
	}
}

// Whatever a later chart adds: without any one of its values, each chart makes the same objects.
func TestAMissingValueIsTheDefault(t *testing.T) {
	for _, o := range all {
		o.images = "" // the values of the chart alone
		released := func() *chart.Chart {
			loaded := o.load(t)
			loaded.Metadata.AppVersion = "v1"
			return loaded
		}
		want, err := o.renderChart(t, released(), o.values(t, ""))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		for _, path := range paths(o.load(t).Values, nil) {
			if last := path[len(path)-1]; last == "resources" || slices.Contains(path, "labels") || slices.Contains(path, "resources") {
				continue // null removes them
			}
			t.Run(o.name+" "+strings.Join(path, "."), func(t *testing.T) {
				g := NewWithT(t)
				loaded := released()
				remove(loaded.Values, path)
				got, err := o.renderChart(t, loaded, o.values(t, ""))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got).To(Equal(want))
			})
		}
	}
}

// A value of false, zero or nothing that a user has set is kept.
func TestAnEmptyValueIsNotMissing(t *testing.T) {
	g := NewWithT(t)
	hub := workloadOf(t, hubChart.objects(t, "metrics.enabled=false,replicas=1,leaderElection=false,log.verbosity=0,podDisruptionBudget.enabled=false"))
	g.Expect(containers(hub.pod)[0].Args).To(ContainElements("--metrics-address=0", "--leader-elect=false"))
	values := hubChart.values(t, "")
	values["resources"] = nil
	files, err := hubChart.render(t, values)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files["hollowfleet-hub/templates/deployment.yaml"]).NotTo(ContainSubstring("resources:"), "null removes the requests")
}

// paths are those of all values, of maps too.
func paths(values map[string]any, above []string) (all [][]string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		path := append(slices.Clone(above), key)
		all = append(all, path)
		if below, is := values[key].(map[string]any); is {
			all = append(all, paths(below, path)...)
		}
	}
	return all
}

func remove(values map[string]any, path []string) {
	for _, key := range path[:len(path)-1] {
		values = values[key].(map[string]any)
	}
	delete(values, path[len(path)-1])
}

func configuration() *action.Configuration {
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.37.1", Major: "1", Minor: "37"}
	return &action.Configuration{
		Releases: storage.Init(driver.NewMemory()), KubeClient: &kubefake.PrintingKubeClient{Out: io.Discard},
		Capabilities: capabilities, Log: func(string, ...any) {},
	}
}

func (o one) install(t *testing.T, c *chart.Chart, values map[string]any) string {
	t.Helper()
	install := action.NewInstall(configuration())
	install.ReleaseName, install.Namespace = "r", o.namespace
	release, err := install.Run(c, values)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(release.Manifest)
}

// upgrade installs the chart earlier with values, and upgrades it to that of the repository as "helm upgrade --reuse-values" does.
func (o one) upgrade(t *testing.T, earlier *chart.Chart, values map[string]any) string {
	t.Helper()
	shared := configuration()
	install := action.NewInstall(shared)
	install.ReleaseName, install.Namespace = "r", o.namespace
	if _, err := install.Run(earlier, values); err != nil {
		t.Fatal(err)
	}
	upgrade := action.NewUpgrade(shared)
	upgrade.Namespace, upgrade.ReuseValues = o.namespace, true
	release, err := upgrade.Run("r", o.load(t), map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(release.Manifest)
}
