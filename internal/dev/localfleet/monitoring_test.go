package localfleet

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// Claim: A local fleet's targets for Prometheus have the labels of the charts' ServiceMonitors, and come and go with its clusters. Broken: a job of another name; an agent that has gone left; https lost. Also: test/integration/prometheus TestPrometheus.
func TestPrometheusFindsWhatAFleetServes(t *testing.T) {
	g := NewWithT(t)
	f := &Fleet{options: Options{Dir: t.TempDir(), Kept: true}}
	f.writeMonitoring()
	f.state.Endpoints = map[string]Endpoints{
		"hub": {Metrics: "http://127.1.2.3:5/metrics"}, "agent host": {Metrics: "https://127.1.2.4:6/metrics"}, "agent c1": {Metrics: "http://127.1.2.5:7/metrics"},
		"agent c2": {Health: "http://127.1.2.6:8"},
	}
	g.Expect(f.writeState()).To(Succeed())
	var targets []target
	read := func() {
		content, err := os.ReadFile(filepath.Join(f.options.Dir, "monitoring", "targets.json"))
		g.Expect(err).NotTo(HaveOccurred())
		targets = nil
		g.Expect(json.Unmarshal(content, &targets)).To(Succeed())
	}
	read()
	g.Expect(targets).To(ConsistOf(
		target{[]string{"127.1.2.3:5"}, map[string]string{"job": "hollowfleet-hub", "namespace": "hollowfleet-system"}},
		target{[]string{"127.1.2.4:6"}, map[string]string{"job": "hollowfleet-agent", "namespace": "host", "cluster": "host", "__scheme__": "https"}},
		target{[]string{"127.1.2.5:7"}, map[string]string{"job": "hollowfleet-agent", "namespace": "c1", "cluster": "c1"}},
	))
	delete(f.state.Endpoints, "agent c1")
	g.Expect(f.writeState()).To(Succeed())
	read()
	g.Expect(targets).To(HaveLen(2))

	found := readMonitoring(f.options.Dir)
	g.Expect(found).NotTo(BeNil())
	for _, path := range append(found.Dashboards, found.Prometheus) {
		g.Expect(path).To(BeARegularFile())
	}
	g.Expect(readMonitoring(t.TempDir())).To(BeNil(), "a fleet of an earlier version")
}

// A fleet runs also where these files cannot be written.
func TestAFleetRunsWithoutFilesForPrometheus(t *testing.T) {
	g := NewWithT(t)
	var progress []string
	f := &Fleet{options: Options{Dir: t.TempDir(), Kept: true, Progress: func(line string) { progress = append(progress, line) }}}
	path := filepath.Join(f.options.Dir, "monitoring")
	g.Expect(os.WriteFile(path, nil, 0o600)).To(Succeed())
	g.Expect(f.writeState()).To(Succeed())
	g.Expect(progress).To(ContainElement(ContainSubstring("telling Prometheus what to scrape: ")))
	g.Expect(os.Remove(path)).To(Succeed())
	g.Expect(f.writeState()).To(Succeed())
	g.Expect(filepath.Join(path, "targets.json")).To(BeARegularFile(), "the next time")
}
