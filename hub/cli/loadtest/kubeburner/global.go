package kubeburner

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// readGlobal reads what holds for all jobs.
func (c *conversion) readGlobal(s settings) {
	c.load.CleanupPolicy = v1alpha1.LoadCleanupDelete
	collects := s.hasValue("gc")
	if gc := s.readBool("gc", false); collects && !gc {
		c.load.CleanupPolicy = v1alpha1.LoadCleanupKeep
	} else if !collects {
		c.addNote(Changed, "global.gc", "it is not set, and kube-burner would leave what it made: here it is removed at the end, by cleanupPolicy: Delete")
	}
	c.load.Timeout = metav1.Duration{Duration: timeoutByDefault}
	if timeout := s.readDuration("timeout"); timeout > 0 {
		c.load.Timeout.Duration = min(max(timeout, time.Second), mostDuration)
		if timeout != c.load.Timeout.Duration {
			c.addNote(Changed, s.pathOf("timeout"), "%s becomes %s: a LoadTest has 1s to %s", timeout, c.load.Timeout.Duration, mostDuration)
		}
	}
	c.waitAtEnd = s.readBool("waitWhenFinished", false)
	for _, measurement := range s.readList("measurements") {
		c.readMeasurement(measurement)
	}
	s.nameRest()
}

var (
	conditionMeasurements = map[string]v1alpha1.LoadMeasurement{
		"Ready": v1alpha1.LoadPodReady, "PodScheduled": v1alpha1.LoadPodScheduled, "Initialized": v1alpha1.LoadPodInitialized, "ContainersReady": v1alpha1.LoadPodRunning,
	}
	quantiles = map[string]v1alpha1.LoadQuantile{"P50": v1alpha1.LoadP50, "P99": v1alpha1.LoadP99, "Max": v1alpha1.LoadMax}
)

// mostThresholds is how many a LoadTest has, one of which is that of errors.
const mostThresholds = 15

// readMeasurement reads thresholds of pod or Node latencies, which are measured in any case.
func (c *conversion) readMeasurement(s settings) {
	name := s.readText("name")
	ofPods, ofNodes := name == "podLatency", name == "nodeLatency"
	if !ofPods && !ofNodes {
		c.addNote(Ignored, s.path, "%q is not measured", name)
	}
	for _, t := range s.readList("thresholds") {
		condition, metric, text := t.readText("conditionType"), t.readText("metric"), t.readText("threshold")
		measurement, known := conditionMeasurements[condition]
		if ofNodes {
			measurement, known = v1alpha1.LoadNodeReady, condition == "Ready"
		}
		quantile, may := quantiles[metric]
		most, err := time.ParseDuration(text)
		if !known || !may || err != nil || most <= 0 || !ofPods && !ofNodes || len(c.load.Thresholds) == mostThresholds {
			c.addNote(LeftOut, t.path, "the threshold %s %s %s of %s has no counterpart", condition, metric, text, name)
			continue
		}
		c.load.Thresholds = append(c.load.Thresholds, v1alpha1.LoadThreshold{Measurement: measurement, Quantile: quantile, Max: &metav1.Duration{Duration: most}})
		t.nameRest()
	}
	s.nameRest()
}
