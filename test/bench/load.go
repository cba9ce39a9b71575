package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
)

// loadName is the name of the load test.
const loadName = "bench"

// namespaceListKind is the kind of a list of namespaces.
var namespaceListKind = corev1.SchemeGroupVersion.WithKind("NamespaceList")

// loadPod is a pod that runs on hollow Nodes only. On those that run probes it takes two seconds or three to start.
const loadPod = `apiVersion: v1
kind: Pod
metadata:
  annotations: {hollowfleet.io/started-after: 2s}
spec:
  nodeSelector: {` + v1alpha1.HollowNodeLabel + `: "true"}
  containers:
  - name: main
    image: example.com/main
    startupProbe: {tcpSocket: {port: 80}, periodSeconds: 1, failureThreshold: 60}
`

// loadFigures is what one load test measured, and what it cost.
type loadFigures struct {
	Clusters int `json:"clusters"`
	Machines int `json:"machinesPerCluster"`
	Pods     int `json:"podsPerCluster"`
	// Phase, Verdict and Message are those of the LoadTest at its end, Seconds the time from its creation to there, with what was
	// cleaned up.
	Phase   v1alpha1.LoadTestPhase `json:"phase"`
	Verdict v1alpha1.LoadVerdict   `json:"verdict"`
	Message string                 `json:"message"`
	Seconds float64                `json:"seconds"`
	// Results are those of all clusters together.
	Results []v1alpha1.LoadTestResult `json:"results"`
	// PodReadyMeanSeconds is measured by the watch, PodReadyByObjectMeanSeconds computed from the times in the pods.
	PodReadyMeanSeconds         float64 `json:"podReadyMeanSeconds"`
	PodReadyByObjectMeanSeconds float64 `json:"podReadyByObjectMeanSeconds"`
	// ControlPlaneCPUSeconds and AgentCPUSeconds are what the processes of the workload clusters' control planes and their agents
	// have used from the creation of the test to its end; AgentRestCPUSeconds what the agents use in that time without a load.
	ControlPlaneCPUSeconds float64 `json:"controlPlaneCPUSeconds"`
	AgentCPUSeconds        float64 `json:"agentCPUSeconds"`
	AgentRestCPUSeconds    float64 `json:"agentRestCPUSeconds"`
	// HollowNodeCPUSeconds is what all hollow nodes have used in that time; HollowNodePrivateMiB the memory of their processes, divided by
	// the nodes, when all pods have been Ready.
	HollowNodeCPUSeconds float64 `json:"hollowNodeCPUSeconds"`
	HollowNodePrivateMiB float64 `json:"hollowNodePrivateMiB"`
	// LateHeartbeats and CPUBusyPercent are the worst of the clusters.
	LateHeartbeats int32 `json:"lateHeartbeats"`
	CPUBusyPercent int32 `json:"cpuBusyPercent"`
	// ReportBytes is the size of the report page.
	ReportBytes int64 `json:"reportBytes"`
	// Left is what the runs have left behind in namespaces.
	Left int `json:"namespacesLeft"`
}

// loadOptions say what pods are made in each cluster.
type loadOptions struct {
	pods, qps, portion int32
	// every is in which time one portion of pods is made, and later deleted. 0 makes all in a row.
	every time.Duration
	// readyWithin is within which time 99 % of the pods must be Ready for the test to pass.
	readyWithin time.Duration
}

// readyWithin is the default: the objective of Kubernetes' own scalability tests.
const readyWithin = 5 * time.Second

func (o loadOptions) check() error {
	switch {
	case o.pods < 1 || o.qps < 1:
		return errors.New("--pods, --qps: want at least 1 each")
	case o.every > 0 && (o.portion < 1 || o.pods%o.portion != 0):
		return fmt.Errorf("--pods: want a multiple of --portion with --every, got %d and %d", o.pods, o.portion)
	}
	return nil
}

func loadCommand(opts *options) *cobra.Command {
	load, programs := loadOptions{pods: 100, qps: 1, portion: 10, readyWithin: readyWithin}, localfleet.Programs{}
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Measure a load test over many clusters, and what it costs",
		Long: `Start a hub and workload clusters with hollow nodes, run one load test over all of them, which starts pods, and report
what was measured, whether it is valid, and what agents and control planes used.
Exit status: 0 measured, 1 could not measure. No figure makes it fail.`,
		Example: `  bench load --clusters 10 --machines 20 --pods 100
  bench load --clusters 2 --machines 10 --profile Realistic
  bench load --clusters 10 --machines 20 --isolation=process --nodes-per-pack=1`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if programs.Isolation == "" {
				programs.Isolation = localfleet.DefaultIsolation(opts.clusters)
			}
			opts.programs = programs
			return runLoad(cmd.Context(), *opts, load)
		},
	}
	cmd.Flags().Int32Var(&load.pods, "pods", load.pods, "number of pods in each cluster")
	cmd.Flags().Int32Var(&load.qps, "qps", load.qps, "pods that are made in a second in each cluster")
	cmd.Flags().DurationVar(&load.every, "every", load.every, "make a portion of the pods in each cluster, and later delete it, once in this time; 0 makes all in a row")
	cmd.Flags().Int32Var(&load.portion, "portion", load.portion, "number of pods in a portion")
	cmd.Flags().DurationVar(&load.readyWithin, "ready-within", load.readyWithin, "within which time 99 % of the pods must be Ready for the test to pass")
	cmdutil.Choice(cmd, &programs.Isolation, "isolation", `what control planes share, as in "kubectl hollow local up" (default: as there)`, localfleet.IsolationProcess, localfleet.IsolationShared)
	cmd.Flags().IntVar(&programs.NodesPerPack, "nodes-per-pack", defaultNodesPerPack, "how many nodes of a cluster share a process")
	return cmd
}

func runLoad(ctx context.Context, opts options, load loadOptions) error {
	if err := load.check(); err != nil {
		return err
	}
	if opts.clusters < 1 || opts.machines < 1 {
		return errors.New("--clusters, --machines: want at least 1 each")
	}
	if opts.output != "text" && opts.output != "json" {
		return fmt.Errorf("--output: want text or json, got %q", opts.output)
	}
	if err := opts.checkProfile(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, opts.timeout, errTimeUp)
	defer cancel()
	f, err := measureLoad(ctx, opts, load)
	if err != nil {
		return err
	}
	if opts.output == "json" {
		encoder := json.NewEncoder(opts.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(f)
	}
	return f.print(opts.out)
}

// measureLoad starts a fleet, runs the load test and ends the fleet.
func measureLoad(ctx context.Context, opts options, load loadOptions) (f *loadFigures, err error) {
	fleet, remove, err := startFleet(ctx, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	scaled := &measurement{figures: &figures{}, opts: opts, fleet: fleet}
	if err := scaled.measureScale(ctx); err != nil {
		return nil, err
	}
	f = &loadFigures{Clusters: opts.clusters, Machines: opts.machines, Pods: int(load.pods)}
	return f, f.measure(ctx, opts, fleet, newLoadTest(load))
}

// newLoadTest starts pods in all clusters and waits for them.
func newLoadTest(load loadOptions) *v1alpha1.LoadTest {
	iterations, pods := int32(1), load.pods
	if load.every > 0 {
		iterations, pods = load.pods/load.portion, load.portion
	}
	test := &v1alpha1.LoadTest{ObjectMeta: metav1.ObjectMeta{Name: loadName}}
	test.Spec.ClusterSelector = &metav1.LabelSelector{}
	test.Spec.Load = &v1alpha1.Load{
		Templates: []v1alpha1.LoadTemplate{{Name: "pod", Object: loadPod}},
		Steps: []v1alpha1.LoadStep{
			{Name: "create", Iterations: iterations, Phases: []v1alpha1.LoadPhase{{
				Action: v1alpha1.LoadCreate, Template: "pod", Replicas: pods, Wait: v1alpha1.LoadWaitReady,
				// Times in pods are whole seconds: pods made at the same part of each second would all be wrong by the same.
				Tuning: v1alpha1.LoadTuning{Type: v1alpha1.LoadPoisson, QPS: load.qps},
			}}},
			{Name: "delete", Iterations: iterations, Phases: []v1alpha1.LoadPhase{{
				Action: v1alpha1.LoadDelete, Template: "pod", Replicas: pods, Tuning: v1alpha1.LoadTuning{QPS: 2 * load.qps}, Wait: v1alpha1.LoadWaitGone,
			}}},
		},
		Thresholds: []v1alpha1.LoadThreshold{
			{Measurement: v1alpha1.LoadPodReady, Quantile: v1alpha1.LoadP99, Max: &metav1.Duration{Duration: load.readyWithin}},
			{Measurement: v1alpha1.LoadAPIRequest, Quantile: v1alpha1.LoadP99, Max: &metav1.Duration{Duration: time.Second}},
		},
	}
	if load.every > 0 {
		for i := range test.Spec.Load.Steps {
			step := &test.Spec.Load.Steps[i]
			step.Phases = append(step.Phases, v1alpha1.LoadPhase{Action: v1alpha1.LoadWait, Duration: &metav1.Duration{Duration: load.every}})
		}
	}
	return test
}

func (f *loadFigures) measure(ctx context.Context, opts options, fleet *localfleet.Fleet, test *v1alpha1.LoadTest) error {
	fmt.Fprintf(opts.progress, "measuring at rest for %s\n", opts.rest)
	begin, before := time.Now(), readProcesses(fleet)
	if err := sleep(ctx, opts.rest); err != nil {
		return err
	}
	rested, resting := readProcesses(fleet), time.Since(begin).Seconds()
	begin = time.Now()
	if err := fleet.HubClient.Create(ctx, test); err != nil {
		return fmt.Errorf("creating the load test: %w", err)
	}
	if err := f.follow(ctx, opts, fleet, test); err != nil {
		return err
	}
	f.Seconds = time.Since(begin).Seconds()
	after := readProcesses(fleet)
	f.ControlPlaneCPUSeconds = cpuSeconds(rested, after, isControlPlane)
	f.AgentCPUSeconds = cpuSeconds(rested, after, isAgent)
	f.HollowNodeCPUSeconds = cpuSeconds(rested, after, isHollowNode)
	f.AgentRestCPUSeconds = cpuSeconds(before, rested, isAgent) * f.Seconds / max(resting, 1)
	if err := f.readRuns(ctx, fleet); err != nil {
		return err
	}
	return f.measureReport(ctx, opts, fleet)
}

// follow waits for the end of the test.
func (f *loadFigures) follow(ctx context.Context, opts options, fleet *localfleet.Fleet, test *v1alpha1.LoadTest) error {
	shown := ""
	err := waitFor(ctx, func(ctx context.Context) bool {
		if err := fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(test), test); err != nil {
			return false
		}
		status := &test.Status
		if now := fmt.Sprintf("%s: %d of %d pods have been Ready", status.Phase, status.Progress.PodsReady, status.Progress.PodsCreated); now != shown {
			fmt.Fprintln(opts.progress, now)
			shown = now
		}
		if f.HollowNodePrivateMiB == 0 && int(status.Progress.PodsReady) == f.Clusters*f.Pods {
			f.HollowNodePrivateMiB = privateMiB(readProcesses(fleet), isHollowNode) / float64(f.Clusters*f.Machines)
		}
		return status.Phase == v1alpha1.LoadTestPhaseCompleted || status.Phase == v1alpha1.LoadTestPhaseFailed
	})
	f.Phase, f.Verdict, f.Message, f.Results = test.Status.Phase, test.Status.Verdict, test.Status.Message, test.Status.Results
	if err != nil {
		return fmt.Errorf("waiting for the end of the load test, which is %s: %s: %w", f.Phase, f.Message, err)
	}
	return nil
}

// readRuns reads the means of all measurements together, and what was left behind.
func (f *loadFigures) readRuns(ctx context.Context, fleet *localfleet.Fleet) error {
	runs, all := &v1alpha1.LoadTestRunList{}, loadtest.Measurements{}
	if err := fleet.HubClient.List(ctx, runs, client.MatchingLabels{v1alpha1.LoadTestNameLabel: loadName}); err != nil {
		return fmt.Errorf("listing the runs: %w", err)
	}
	for i := range runs.Items {
		measured, err := loadtest.Decode(runs.Items[i].Status.Histograms)
		if err != nil {
			return err
		}
		all.Merge(measured)
		if simulator := runs.Items[i].Status.Simulator; simulator != nil {
			f.LateHeartbeats, f.CPUBusyPercent = max(f.LateHeartbeats, simulator.LateHeartbeats), max(f.CPUBusyPercent, simulator.CPUBusyPercent)
		}
	}
	f.PodReadyMeanSeconds = meanSeconds(all, v1alpha1.LoadPodReady)
	f.PodReadyByObjectMeanSeconds = meanSeconds(all, v1alpha1.LoadPodReadyByObject)
	for _, member := range fleet.Members {
		namespaces := &metav1.PartialObjectMetadataList{}
		namespaces.SetGroupVersionKind(namespaceListKind)
		if err := member.Client.List(ctx, namespaces, client.HasLabels{v1alpha1.LoadTestRunUIDLabel}); err != nil {
			return fmt.Errorf("listing namespaces of %s: %w", member.Name, err)
		}
		f.Left += len(namespaces.Items)
	}
	return nil
}

func meanSeconds(all loadtest.Measurements, measurement v1alpha1.LoadMeasurement) float64 {
	histogram := all.Match(loadtest.Key{Measurement: measurement})
	if histogram == nil {
		return 0
	}
	return histogram.Mean() / 1e6
}

// measureReport has kubectl hollow write the report page.
func (f *loadFigures) measureReport(ctx context.Context, opts options, fleet *localfleet.Fleet) error {
	dir, err := os.MkdirTemp("", "hollowfleet-report-")
	if err != nil {
		return fmt.Errorf("making a directory for the report: %w", err)
	}
	defer os.RemoveAll(dir)
	page := filepath.Join(dir, "report.html")
	command := exec.CommandContext(ctx, filepath.Join(opts.binDir, "kubectl-hollow"), "loadtest", "report", loadName, "-o", "html", "--output-file", page, "--kubeconfig", fleet.Hub.AdminKubeconfig())
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("writing the report: %w: %s", err, output)
	}
	info, err := os.Stat(page)
	if err != nil {
		return fmt.Errorf("measuring the report: %w", err)
	}
	f.ReportBytes = info.Size()
	return nil
}

func isAgent(role string) bool { return role == "agent" }

func isHollowNode(role string) bool { return role == "hollow-node" }

// privateMiB is the memory of all processes of some roles.
func privateMiB(processes map[int]usage, wanted func(role string) bool) float64 {
	sum := 0.0
	for _, one := range processes {
		if wanted(one.role) {
			sum += one.privateKB / 1024
		}
	}
	return sum
}

// isControlPlane holds for the processes of workload clusters' control planes, without simcluster itself, which runs hollow nodes.
func isControlPlane(role string) bool {
	return strings.HasPrefix(role, "workload ") && role != "workload simcluster"
}

// cpuSeconds is what the processes of some roles have used between two looks.
func cpuSeconds(before, after map[int]usage, wanted func(role string) bool) float64 {
	sum := 0.0
	for pid, now := range after {
		if wanted(now.role) {
			sum += now.cpuSeconds - before[pid].cpuSeconds
		}
	}
	return sum
}

func (f *loadFigures) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "\n%d clusters, %d Machines and %d pods each\n", f.Clusters, f.Machines, f.Pods)
	fmt.Fprintf(w, "the load test, with what it cleaned up\t%s, verdict %s, %.1f s\n", f.Phase, f.Verdict, f.Seconds)
	fmt.Fprintf(w, "its message\t%s\n", f.Message)
	fmt.Fprintln(w, "\nMEASUREMENT\tCOUNT\tP50\tP90\tP99\tMAX\tWORST CLUSTER")
	for _, r := range f.Results {
		name := loadtest.Key{Measurement: r.Measurement, Verb: r.Verb, Resource: r.Resource}.String()
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s %s\n", name, r.Count, rounded(r.P50), rounded(r.P90), rounded(r.P99), rounded(r.Max), r.WorstCluster, rounded(r.WorstP99))
	}
	added := 100 * (f.AgentCPUSeconds - f.AgentRestCPUSeconds) / max(f.ControlPlaneCPUSeconds, 0.01)
	fmt.Fprintf(w, "\nmean time to Ready by the watch / by the pods' own times\t%.3f s / %.3f s, %+.1f %%\n", f.PodReadyMeanSeconds, f.PodReadyByObjectMeanSeconds,
		100*(f.PodReadyMeanSeconds/max(f.PodReadyByObjectMeanSeconds, 0.001)-1))
	fmt.Fprintf(w, "processor time of the control planes / of the agents / of the agents at rest\t%.1f s / %.1f s / %.1f s: the load adds %.1f %%\n",
		f.ControlPlaneCPUSeconds, f.AgentCPUSeconds, f.AgentRestCPUSeconds, added)
	fmt.Fprintf(w, "processor time of all hollow nodes / memory of one with all pods\t%.1f s / %.1f MiB\n", f.HollowNodeCPUSeconds, f.HollowNodePrivateMiB)
	fmt.Fprintf(w, "late heartbeats / processors busy, in the worst cluster\t%d / %d %%\n", f.LateHeartbeats, f.CPUBusyPercent)
	fmt.Fprintf(w, "size of the report page\t%.1f KiB\n", float64(f.ReportBytes)/1024)
	fmt.Fprintf(w, "namespaces left behind\t%d\n", f.Left)
	return w.Flush()
}

func rounded(d metav1.Duration) time.Duration { return d.Round(time.Millisecond) }
