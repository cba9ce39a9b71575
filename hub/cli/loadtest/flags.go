package loadtest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// runFlags are what a LoadTest is made of on the command line.
type runFlags struct {
	clusters, disruptFile        string
	pods, podsPerNode, qps, many int32
	duration                     time.Duration
	thresholds                   []string
	// all are these flags.
	all []*pflag.Flag
}

// addFlags adds the flags to a command that has no others yet.
func (f *runFlags) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.clusters, "clusters", "", cmdutil.ClustersUsage)
	flags.Int32Var(&f.pods, "pods", 0, "number of pods in each cluster (default: the preset's own)")
	flags.Int32Var(&f.podsPerNode, "pods-per-node", 0, "number of pods for each hollow Node, instead of --pods")
	flags.Int32Var(&f.many, "namespaces", 0, "number of namespaces to spread the pods over (default 1)")
	flags.Int32Var(&f.qps, "qps", 0, "requests per second in each cluster (default: the preset's own)")
	flags.DurationVar(&f.duration, "duration", 0, "duration of the timed phases (default: the preset's own)")
	flags.StringArrayVar(&f.thresholds, "threshold", nil, "threshold, instead of the preset's own: 'PodReady.P99<=5s', 'APIRequest.POST.pods.P99<=1s', "+
		"'Errors<=1%'; can be given several times")
	flags.StringVar(&f.disruptFile, "disrupt-file", "", "file with a NodeDisruption whose spec says which Nodes fail during the test, and how")
	flags.VisitAll(func(flag *pflag.Flag) { f.all = append(f.all, flag) })
}

// givenFlags are the names of those that the command line has.
func (f *runFlags) givenFlags() (names []string) {
	for _, flag := range f.all {
		if flag.Changed {
			names = append(names, flag.Name)
		}
	}
	return names
}

// specOf is what the flags say.
func (f *runFlags) specOf(preset string) (v1alpha1.LoadTestSpec, error) {
	spec := v1alpha1.LoadTestSpec{ClusterSelector: cmdutil.AllClusters()}
	spec.Preset = &v1alpha1.LoadPreset{Name: preset, Pods: f.pods, PodsPerNode: f.podsPerNode, Namespaces: f.many, QPS: f.qps}
	if f.duration != 0 {
		spec.Preset.Duration = &metav1.Duration{Duration: f.duration}
	}
	if f.clusters != "" {
		parsed, err := metav1.ParseToLabelSelector(f.clusters)
		if err != nil {
			return spec, cmdutil.Usage("--clusters: %q is not a label selector: %w", f.clusters, err)
		}
		spec.ClusterSelector = parsed
	}
	for _, text := range f.thresholds {
		threshold, err := parseThreshold(text)
		if err != nil {
			return spec, cmdutil.Usage("--threshold %s: %w", text, err)
		}
		spec.Preset.Thresholds = append(spec.Preset.Thresholds, threshold)
	}
	if f.disruptFile != "" {
		var raw struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
			Spec              v1alpha1.NodeDisruptionSpec `json:"spec"`
		}
		if err := readFile(f.disruptFile, "NodeDisruption", &raw.TypeMeta, &raw); err != nil {
			return spec, err
		}
		spec.Disruption = &raw.Spec.Disruption
	}
	return spec, nil
}

// readFile reads an object of a kind, of which type is. What it has besides is an error.
func readFile(file, kind string, header *metav1.TypeMeta, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the %s: %w", kind, err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		return cmdutil.Usage("%s: %w", file, err)
	}
	if header.Kind != kind || header.APIVersion != v1alpha1.GroupVersion.String() {
		return cmdutil.Usage("%s: want a %s of %s, got %s %s", file, kind, v1alpha1.GroupVersion, header.APIVersion, header.Kind)
	}
	return nil
}

// testOfFile reads a LoadTest. The kind's own decoder keeps what it cannot decode for later, and knows no strictness.
func testOfFile(file string) (*v1alpha1.LoadTest, error) {
	var raw struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              v1alpha1.LoadTestSpec `json:"spec"`
	}
	if err := readFile(file, "LoadTest", &raw.TypeMeta, &raw); err != nil {
		return nil, err
	}
	return &v1alpha1.LoadTest{ObjectMeta: raw.ObjectMeta, Spec: raw.Spec}, nil
}

// nameOf is the name of a test for which none is given.
func nameOf(preset string) string { return preset + "-" + rand.String(5) }

var (
	measurements = []v1alpha1.LoadMeasurement{
		v1alpha1.LoadPodScheduled, v1alpha1.LoadPodInitialized, v1alpha1.LoadPodRunning, v1alpha1.LoadPodReady, v1alpha1.LoadPodReadyByObject, v1alpha1.LoadNodeReady,
		v1alpha1.LoadDeploymentRollout, v1alpha1.LoadAPIRequest, v1alpha1.LoadAPIServerRequest, v1alpha1.LoadErrors,
	}
	quantiles = []v1alpha1.LoadQuantile{v1alpha1.LoadP50, v1alpha1.LoadP90, v1alpha1.LoadP99, v1alpha1.LoadMax}
)

// parseThreshold reads MEASUREMENT[.VERB][.RESOURCE][.QUANTILE]<=MOST.
func parseThreshold(text string) (v1alpha1.LoadThreshold, error) {
	threshold := v1alpha1.LoadThreshold{Quantile: v1alpha1.LoadP99}
	what, most, found := strings.Cut(text, "<=")
	if !found {
		return threshold, errors.New("want WHAT<=MOST, such as PodReady.P99<=5s")
	}
	parts := strings.Split(strings.TrimSpace(what), ".")
	threshold.Measurement = v1alpha1.LoadMeasurement(parts[0])
	if !slices.Contains(measurements, threshold.Measurement) {
		return threshold, fmt.Errorf("unknown measurement %q: want one of %s", parts[0], joinValues(measurements))
	}
	for _, part := range parts[1:] {
		switch {
		case slices.Contains(quantiles, v1alpha1.LoadQuantile(part)):
			threshold.Quantile = v1alpha1.LoadQuantile(part)
		case part != "" && strings.ToUpper(part) == part:
			threshold.Verb = part
		case part != "":
			threshold.Resource = part
		}
	}
	most = strings.TrimSpace(most)
	if threshold.Measurement == v1alpha1.LoadErrors {
		percent, err := strconv.ParseInt(strings.TrimSuffix(most, "%"), 10, 32)
		if err != nil || percent < 0 || percent > 100 {
			return threshold, fmt.Errorf("want a percentage from 0%% to 100%%, got %q", most)
		}
		threshold.MaxPercent = new(int32(percent))
		return threshold, nil
	}
	duration, err := time.ParseDuration(most)
	if err != nil || duration <= 0 {
		return threshold, fmt.Errorf("want a duration such as 5s, got %q", most)
	}
	threshold.Max = &metav1.Duration{Duration: duration}
	return threshold, nil
}

func joinValues[T ~string](values []T) string {
	var texts []string
	for _, value := range values {
		texts = append(texts, string(value))
	}
	return strings.Join(texts, ", ")
}
