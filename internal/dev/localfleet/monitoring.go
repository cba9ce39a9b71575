package localfleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/charts"
	"github.com/hollowfleet/hollowfleet/internal/atomicfile"
)

const (
	// monitoringDir is in a fleet's directory.
	monitoringDir  = "monitoring"
	prometheusFile = "prometheus.yaml"
	targetsFile    = "targets.json"

	// The jobs are the names of the Services of the charts, from which a ServiceMonitor takes them: alerts ask for them.
	hubJob, agentJob = "hollowfleet-hub", "hollowfleet-agent"

	scrapeEvery = "10s"
)

// Monitoring are files in a fleet's directory with which Prometheus and Grafana show it.
type Monitoring struct {
	// Prometheus is a configuration for it, with all that the fleet serves, also when clusters come and go, and the alerts of the charts.
	Prometheus string `json:"prometheus"`
	// Dashboards are those of the charts, to import into Grafana.
	Dashboards []string `json:"dashboards"`
}

// copied are the files of monitoringDir that are the charts', by name.
var copied = map[string]string{
	"hub-rules.yaml": "hub/files/rules.yaml", "agent-rules.yaml": "agent/files/rules.yaml",
	"hub-dashboard.json": "hub/files/dashboard.json", "agent-dashboard.json": "agent/files/dashboard.json",
}

// prometheusConfig is complete: Prometheus finds the other files beside it, and looks again when the targets change.
const prometheusConfig = `# Written by "kubectl hollow local up" for
#   prometheus --config.file=THIS_FILE --storage.tsdb.path=A_DIRECTORY_OF_YOUR_OWN
global:
  scrape_interval: ` + scrapeEvery + `
  evaluation_interval: ` + scrapeEvery + `
rule_files:
  - hub-rules.yaml
  - agent-rules.yaml
scrape_configs:
  - job_name: hollowfleet
    file_sd_configs:
      - files: [` + targetsFile + `]
    tls_config:
      # A certificate of a program of this fleet is known to that program alone.
      insecure_skip_verify: true
`

// target is an element of the file of targets, as Prometheus reads it.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// targetsOf are the targets of a fleet, by the names of its programs. They have the labels that alerts and dashboards ask for. The namespace
// of an agent is the name of its cluster, so that a panel tells one agent from another.
func targetsOf(endpoints map[string]Endpoints) []target {
	all := []target{}
	for _, name := range slices.Sorted(maps.Keys(endpoints)) {
		served, err := url.Parse(endpoints[name].Metrics)
		if err != nil || served.Host == "" {
			continue // It serves none.
		}
		labels := map[string]string{"job": hubJob, "namespace": v1alpha1.HubNamespace}
		if cluster, isAgent := strings.CutPrefix(name, agentName("")); isAgent {
			labels = map[string]string{"job": agentJob, "namespace": cluster, "cluster": cluster}
		}
		if served.Scheme != "http" {
			labels["__scheme__"] = served.Scheme
		}
		all = append(all, target{Targets: []string{served.Host}, Labels: labels})
	}
	return all
}

// writeMonitoring writes the files with which others look at the fleet. It runs without them.
func (f *Fleet) writeMonitoring() {
	if !f.options.Kept {
		return
	}
	contents := map[string][]byte{prometheusFile: []byte(prometheusConfig)}
	for name, source := range copied {
		content, err := charts.Monitoring.ReadFile(source)
		if err != nil {
			f.reportProgress("reading %s: %v", source, err)
			return
		}
		contents[name] = content
	}
	for name, content := range contents {
		if err := f.writeMonitoringFile(name, content); err != nil {
			f.reportProgress("%v", err)
		}
	}
}

func (f *Fleet) writeMonitoringFile(name string, content []byte) error {
	dir := filepath.Join(f.options.Dir, monitoringDir)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making the directory for Prometheus's configuration: %w", err)
	}
	return atomicfile.Write(filepath.Join(dir, name), content, 0o644)
}

// writeTargets writes the targets if they have changed. f.recording is held.
func (f *Fleet) writeTargets() {
	if !f.options.Kept {
		return
	}
	content, err := json.MarshalIndent(targetsOf(f.state.Endpoints), "", "  ")
	if err != nil || bytes.Equal(content, f.targets) {
		return
	}
	if err := f.writeMonitoringFile(targetsFile, content); err != nil {
		f.reportProgress("telling Prometheus what to scrape: %v", err)
		return
	}
	f.targets = content
}

// readMonitoring returns what there is for the fleet in dir; nil if a fleet of an earlier version is there, or one without a keeper.
func readMonitoring(dir string) *Monitoring {
	path := filepath.Join(dir, monitoringDir)
	if _, err := os.Stat(filepath.Join(path, prometheusFile)); err != nil {
		return nil
	}
	return &Monitoring{
		Prometheus: filepath.Join(path, prometheusFile),
		Dashboards: []string{filepath.Join(path, "hub-dashboard.json"), filepath.Join(path, "agent-dashboard.json")},
	}
}

// monitoringPatterns are the files of monitoringDir, as patterns.
func monitoringPatterns() []string {
	patterns := []string{}
	for _, name := range append(slices.Sorted(maps.Keys(copied)), prometheusFile, targetsFile) {
		patterns = append(patterns, fmt.Sprintf("%s/%s", monitoringDir, name), fmt.Sprintf("%s/%s*", monitoringDir, atomicfile.TemporaryPrefix(name)))
	}
	return patterns
}
