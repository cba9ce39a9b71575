// Package kubeburner makes a LoadTest of a configuration of kube-burner, as far as the two mean the same.
package kubeburner

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// The bounds of a LoadTest.
const (
	mostNamespaces, mostTemplates, mostSteps, mostPhases = 100, 16, 32, 8
	mostReplicas, mostQPS, mostBurst, mostName           = 10_000, 1000, 100, 52
	// The defaults of kube-burner.
	churnPercent, churnDuration = 10, time.Hour
)

// conversion is one configuration that is being read.
type conversion struct {
	files fs.FS
	load  *v1alpha1.Load
	// kinds are those of the templates, by their names, and pods tells which make pods.
	kinds map[string]string
	// named are names of objects as their templates have them, and what they become.
	named [][2]string
	notes []string
}

// Convert reads a configuration, whose templates are in files. The notes name each setting that a LoadTest does not have. It is an
// error if nothing is left to do.
func Convert(config []byte, files fs.FS) (*v1alpha1.LoadTest, []string, error) {
	if action := regexp.MustCompile(`\{\{.*?\}\}`).Find(config); action != nil {
		return nil, nil, fmt.Errorf("the configuration is a template itself: write a value in place of %s", action)
	}
	var raw map[string]any
	if err := yaml.Unmarshal(config, &raw); err != nil {
		return nil, nil, fmt.Errorf("reading the configuration: %w", err)
	}
	c := &conversion{files: files, kinds: map[string]string{}, load: &v1alpha1.Load{Namespaces: 1, CleanupPolicy: v1alpha1.LoadCleanupDelete}}
	top := settings{"", raw}
	jobs := top.list("jobs")
	if len(jobs) == 0 {
		return nil, nil, errors.New("the configuration has no jobs")
	}
	c.namespaces(jobs)
	name := nameOf(jobs[0].peekText("name"), "imported", mostName)
	c.global(top.section("global"))
	for i, job := range jobs {
		c.job(i, job)
	}
	c.rest(top)
	if len(c.load.Steps) == 0 {
		return nil, c.notes, errors.New("nothing is left of the configuration that a LoadTest can do")
	}
	c.reduce()
	c.rename()
	test := &v1alpha1.LoadTest{ObjectMeta: metav1.ObjectMeta{Name: name}}
	test.Spec.ClusterSelector, test.Spec.Load = &metav1.LabelSelector{}, c.load
	return test, c.notes, nil
}

func (c *conversion) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// rest names what was not read of settings.
func (c *conversion) rest(s settings) {
	for _, name := range slices.Sorted(maps.Keys(s.left)) {
		c.note("%s: not supported", s.at(name))
	}
}

// namespaces takes the number of the job that has most: a LoadTest has as many for all of its steps.
func (c *conversion) namespaces(jobs []settings) {
	for i := range jobs {
		iterations := max(jobs[i].peekNumber("jobIterations", 1), 1)
		if jobs[i].peekText("jobType") != "" && jobs[i].peekText("jobType") != "create" || jobs[i].peekFalse("namespacedIterations") {
			continue
		}
		per := max(jobs[i].peekNumber("iterationsPerNamespace", 1), 1)
		c.load.Namespaces = max(c.load.Namespaces, int32(min((iterations+per-1)/per, mostNamespaces)))
	}
}

// global reads what holds for all jobs.
func (c *conversion) global(s settings) {
	if gc, set := s.truth("gc"); set && !gc {
		c.load.CleanupPolicy = v1alpha1.LoadCleanupKeep
	}
	if timeout := s.duration("timeout", c); timeout > 0 {
		c.load.Timeout = metav1.Duration{Duration: min(timeout, 24*time.Hour)}
	}
	for _, measurement := range s.list("measurements") {
		c.measurement(measurement)
	}
	c.rest(s)
}

var (
	conditionMeasurements = map[string]v1alpha1.LoadMeasurement{
		"Ready": v1alpha1.LoadPodReady, "PodScheduled": v1alpha1.LoadPodScheduled, "Initialized": v1alpha1.LoadPodInitialized, "ContainersReady": v1alpha1.LoadPodRunning,
	}
	quantiles = map[string]v1alpha1.LoadQuantile{"P50": v1alpha1.LoadP50, "P99": v1alpha1.LoadP99, "Max": v1alpha1.LoadMax}
)

// measurement reads thresholds of pod or Node latencies, which are measured in any case.
func (c *conversion) measurement(s settings) {
	name := s.text("name")
	if name != "podLatency" && name != "nodeLatency" {
		c.note("%s: the measurement %q is not supported", s.path, name)
		return
	}
	for _, t := range s.list("thresholds") {
		condition, metric, text := t.text("conditionType"), t.text("metric"), t.text("threshold")
		measurement, known := conditionMeasurements[condition]
		if name == "nodeLatency" {
			measurement, known = v1alpha1.LoadNodeReady, condition == "Ready"
		}
		quantile, may := quantiles[metric]
		most, err := time.ParseDuration(text)
		if !known || !may || err != nil || most <= 0 {
			c.note("%s: a threshold of %s %s %s is not supported", t.path, condition, metric, text)
			continue
		}
		c.load.Thresholds = append(c.load.Thresholds, v1alpha1.LoadThreshold{Measurement: measurement, Quantile: quantile, Max: &metav1.Duration{Duration: most}})
		c.rest(t)
	}
	c.rest(s)
}

// reduce names and drops what is more than a LoadTest may have.
func (c *conversion) reduce() {
	if len(c.load.Steps) > mostSteps {
		c.note("jobs: a LoadTest has %d steps at most: the last %d are left out", mostSteps, len(c.load.Steps)-mostSteps)
		c.load.Steps = c.load.Steps[:mostSteps]
	}
	used := map[string]bool{}
	for _, step := range c.load.Steps {
		for _, phase := range step.Phases {
			used[phase.Template] = true
		}
	}
	c.load.Templates = slices.DeleteFunc(c.load.Templates, func(t v1alpha1.LoadTemplate) bool { return !used[t.Name] })
}

// rename lets objects be called by the names that a LoadTest gives them.
func (c *conversion) rename() {
	slices.SortFunc(c.named, func(a, b [2]string) int { return len(b[0]) - len(a[0]) })
	for i := range c.load.Templates {
		for _, pair := range c.named {
			c.load.Templates[i].Object = strings.ReplaceAll(c.load.Templates[i].Object, pair[0], pair[1])
		}
	}
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// nameOf makes a name of a text.
func nameOf(text, otherwise string, most int) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(text), "-"), "-")
	name = strings.Trim(name[:min(len(name), most)], "-")
	if name == "" {
		return otherwise
	}
	return name
}

// rate is the tuning of requests at qps a second, shared by phases.
func (c *conversion) rate(s settings, phases int) v1alpha1.LoadTuning {
	qps, burst := s.number("qps", 5, c), s.number("burst", 1, c)
	if qps > mostQPS || burst > mostBurst {
		c.note("%s: at most %d requests a second and %d at once are made", s.path, mostQPS, mostBurst)
	}
	each := int32(math.Ceil(min(max(qps, 1), mostQPS) / float64(max(phases, 1))))
	return v1alpha1.LoadTuning{Type: v1alpha1.LoadSteady, QPS: each, Burst: min(int32(min(max(burst, 1), mostBurst)), each)}
}
