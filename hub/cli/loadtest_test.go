package cli_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
)

func (f *env) loadTest() *v1alpha1.LoadTest {
	f.T.Helper()
	test := &v1alpha1.LoadTest{}
	f.Expect(f.Client.Get(context.WithoutCancel(f.T.Context()), client.ObjectKey{Name: f.name}, test)).To(Succeed())
	return test
}

// hubTests writes the statuses of the load test of the env's name, one after the other, as the hub would.
func (f *env) hubTests(statuses ...v1alpha1.LoadTestStatus) {
	go func() {
		ctx := f.T.Context()
		tick := time.NewTicker(glance)
		defer tick.Stop()
		for len(statuses) > 0 {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			test := &v1alpha1.LoadTest{}
			if f.Client.Get(ctx, client.ObjectKey{Name: f.name}, test) != nil {
				continue
			}
			test.Status = statuses[0]
			if f.Client.Status().Update(ctx, test) == nil {
				statuses = statuses[1:]
			}
		}
	}()
}

// passed is the status of a test that has ended well.
func passed() v1alpha1.LoadTestStatus {
	second := metav1.Duration{Duration: 1234 * time.Millisecond}
	return v1alpha1.LoadTestStatus{
		StartTime: &metav1.Time{Time: time.Unix(1000, 0)}, EndTime: &metav1.Time{Time: time.Unix(1060, 0)},
		ObservedGeneration: 1, Phase: v1alpha1.LoadTestPhaseCompleted, Message: "2 of 2 clusters were loaded in full, the threshold is met", Clusters: 2, Completed: 2, Verdict: v1alpha1.LoadPassed,
		Thresholds: []v1alpha1.LoadThresholdResult{{LoadThreshold: v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadPodReady, Quantile: v1alpha1.LoadP99, Max: &metav1.Duration{Duration: 5 * time.Second}}, Met: true, Measured: &second, Count: 40}},
		Results: []v1alpha1.LoadTestResult{{
			LoadLatency: v1alpha1.LoadLatency{Measurement: v1alpha1.LoadPodReady, Count: 40, P50: second, P90: second, P99: second, Max: second}, WorstCluster: "east", WorstP99: second,
		}},
	}
}

func TestALoadTestIsMadeOfFlagsFollowedListedAndStopped(t *testing.T) {
	f := newEnv(t)
	file := filepath.Join(t.TempDir(), "d.yaml")
	f.Expect(os.WriteFile(file, []byte("apiVersion: hollowfleet.io/v1alpha1\nkind: NodeDisruption\nmetadata: {name: x}\nspec: {clusterSelector: {}, faults: [{type: Kill}], timing: {duration: 1m}}\n"), 0o600)).To(Succeed())
	f.Expect(f.succeeds("loadtest run node-churn --name NAME --no-wait --clusters stage=test --pods 200 --namespaces 2 --qps 20 --duration 1m --disrupt-file "+file,
		"--threshold", "PodReady.P90<=3s", "--threshold", "APIRequest.POST.pods<=500ms", "--threshold", "Errors<=1%")).To(ContainSubstring("created"))
	spec := f.loadTest().Spec
	f.Expect(spec.ClusterSelector.MatchLabels).To(HaveKeyWithValue("stage", "test"))
	f.Expect(spec.Preset).To(And(HaveField("Name", "node-churn"), HaveField("Pods", BeEquivalentTo(200)), HaveField("Namespaces", BeEquivalentTo(2)), HaveField("QPS", BeEquivalentTo(20)), HaveField("Duration.Duration", time.Minute)))
	f.Expect(spec.Preset.Thresholds).To(HaveExactElements(
		And(HaveField("Measurement", v1alpha1.LoadPodReady), HaveField("Quantile", v1alpha1.LoadP90), HaveField("Max.Duration", 3*time.Second)),
		And(HaveField("Verb", "POST"), HaveField("Resource", "pods"), HaveField("Quantile", v1alpha1.LoadP99)), HaveField("MaxPercent", HaveValue(BeEquivalentTo(1)))))
	f.Expect(spec.Disruption.Faults).To(ConsistOf(HaveField("Type", disrupt.Kill)))
	f.Expect(f.succeeds("loadtest list")).To(ContainSubstring(f.name))
	f.fails(4, "already exists: set another name with --name, or delete it with: kubectl delete loadtest "+f.name, "loadtest run density --wait=false --name NAME")
	f.Expect(f.succeeds("loadtest stop NAME --dry-run")).To(ContainSubstring("(dry run)"))
	f.Expect(f.loadTest().Spec.Stopped).To(BeFalse())
	f.Expect(f.succeeds("loadtest stop NAME")).To(ContainSubstring("stopped"))
	f.Expect(f.loadTest().Spec.Stopped).To(BeTrue())
	f.hubTests(passed())
	f.Eventually(func() v1alpha1.LoadTestPhase { return f.loadTest().Status.Phase }).Should(Equal(v1alpha1.LoadTestPhaseCompleted))
	f.fails(4, "is over", "loadtest stop NAME")
	f.fails(3, "loadtest no-such-test does not exist: see kubectl hollow loadtest list", "loadtest stop no-such-test")
	f.Expect(f.completes("loadtest stop", "")).To(ContainElement(f.name))
	f.Expect(f.completes("loadtest run", "")).To(ContainElements("api-mix", "density", "node-churn", "pod-startup"))
}

func TestALoadTestThatCannotBeMeantIsBadUsage(t *testing.T) {
	f := newEnv(t)
	for args, says := range map[string]string{
		"":                                   "give a preset, one of api-mix, density, node-churn, pod-startup, or -f",
		"pods":                               `unknown preset "pods"`,
		"density --pods 1 --pods-per-node 1": "set one of them",
		"density --clusters a==b==c":         "is not a label selector",
		"density --duration soon":            "invalid",
		"density --threshold PodReady":       "want WHAT<=MOST",
		"density --threshold PodsReady<=5s":  `unknown measurement "PodsReady"`,
		"density --threshold PodReady<=soon": "want a duration such as 5s",
		"density --threshold Errors<=101%":   "want a percentage",
		"density -f x.yaml":                  "-f and density both describe the test",
		"-f x.yaml --qps 3":                  "-f and --qps both describe the test",
	} {
		f.fails(2, says, "loadtest run "+args)
	}
	file := filepath.Join(t.TempDir(), "x.yaml")
	for text, says := range map[string]string{
		"kind: LoadTest\napiVersion: hollowfleet.io/v1alpha1\nspec: {loads: {}}": "loads",
		"kind: Pod\napiVersion: v1": "want a LoadTest",
		"kind: LoadTest\napiVersion: hollowfleet.io/v1alpha1\nspec: {clusterSelector: {}, preset: {name: density}}": "has no name",
	} {
		f.Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
		f.fails(2, says, "loadtest run -f "+file)
	}
	f.fails(1, "no such file", "loadtest run -f no-such-file")
}

func TestFollowingALoadTestPrintsResultsAndHasAnExitCode(t *testing.T) {
	missed, failed, invalid := passed(), passed(), passed()
	missed.Verdict, missed.Thresholds[0].Met = v1alpha1.LoadMissed, false
	failed.Verdict, failed.Completed, failed.Failed = v1alpha1.LoadMissed, 1, 1
	failed.Failures = []v1alpha1.ClusterFailure{{Cluster: "west", Message: "skipped, because it is frozen"}}
	invalid.Verdict, invalid.Invalid = v1alpha1.LoadInvalid, 1
	never := v1alpha1.LoadTestStatus{ObservedGeneration: 1, Phase: v1alpha1.LoadTestPhaseFailed, Message: "no accepted Cluster is selected"}
	for name, c := range map[string]struct {
		status v1alpha1.LoadTestStatus
		code   int
		out    string
		errOut string
	}{
		"passed":     {passed(), 0, "met: PodReady P99 1.23s, at most 5s\nPassed: 2 of 2", ""},
		"missed":     {missed, 5, "not met: PodReady P99 1.23s, not 5s", "the verdict is Failed: PodReady P99"},
		"in part":    {failed, 1, "Failed: 2 of 2", "west: skipped, because it is frozen"},
		"invalid":    {invalid, 1, "Invalid: ", "say nothing about the clusters"},
		"not at all": {never, 1, "Failed: no accepted", "was not carried out"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t)
			f.hubTests(v1alpha1.LoadTestStatus{ObservedGeneration: 1, Phase: v1alpha1.LoadTestPhaseRunning, Message: "2 of 2 runs are in progress"}, c.status)
			r := f.hollow("loadtest run density --name NAME")
			f.Expect(r.code).To(Equal(c.code), r.errOut)
			f.Expect(r.out).To(ContainSubstring(c.out))
			f.Expect(r.errOut).To(ContainSubstring(c.errOut))
			if len(c.status.Results) > 0 {
				f.Expect(r.out).To(And(MatchRegexp(`PodReady +40 +1.23s +1.23s +1.23s +1.23s +east +1.23s`), ContainSubstring("kubectl hollow loadtest report "+f.name+" -o html")))
			}
		})
	}
	f := newEnv(t)
	f.hubTests(passed())
	r := f.hollow("loadtest run density --name NAME -o json")
	f.Expect(r.code).To(BeZero())
	f.Expect(r.out).To(ContainSubstring(`"verdict": "Passed"`))
	f.Expect(r.out).NotTo(ContainSubstring("created"), "what is told besides goes to standard error")
}

// loadRun makes a run of the test as the hub does, with a status as an agent writes it.
func (f *env) loadRun(cluster string, status v1alpha1.LoadTestRunStatus) {
	f.T.Helper()
	test := f.loadTest()
	run := &v1alpha1.LoadTestRun{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster, Name: test.Name, Labels: map[string]string{v1alpha1.LoadTestNameLabel: test.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(test, v1alpha1.GroupVersion.WithKind("LoadTest"))},
	}}
	run.Spec.Steps = []v1alpha1.LoadStep{{Name: "wait", Phases: []v1alpha1.LoadPhase{{Action: v1alpha1.LoadWait, Duration: &metav1.Duration{Duration: time.Second}}}}}
	f.ExpectApplied(run)
	run.Status = status
	f.ExpectStatusApplied(run)
}

// whenMade returns when the load test of the env's name is there.
func (f *env) whenMade() {
	for f.pause(glance) {
		if f.Client.Get(f.T.Context(), client.ObjectKey{Name: f.name}, &v1alpha1.LoadTest{}) == nil {
			return
		}
	}
}

// pause returns false when the test ends first.
func (f *env) pause(d time.Duration) bool {
	select {
	case <-f.T.Context().Done():
		return false
	case <-time.After(d):
		return true
	}
}

func TestInterruptingEndsTheFollowingAndNotTheTest(t *testing.T) {
	f := newEnv(t)
	f.stops(5, "The load test continues. To see its progress: kubectl hollow loadtest list. To end it: kubectl hollow loadtest stop "+f.name, "loadtest run density --name NAME --timeout 1s")
	f.Expect(f.loadTest().Spec.Stopped).To(BeFalse())
	f = newEnv(t)
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		f.whenMade()
		interrupt()
	}()
	r := f.hollowOn(ctx, io.Discard, "loadtest run density --name NAME")
	f.Expect(r.code).To(Equal(130))
	f.Expect(r.errOut).To(ContainSubstring("The load test continues"))
	f.Expect(f.loadTest().Spec.Stopped).To(BeFalse())
}

func TestATestThatIsDeletedWhileItIsFollowedDoesNotContinue(t *testing.T) {
	f := newEnv(t)
	deleted := make(chan error, 1)
	go func() {
		f.whenMade()
		deleted <- f.Client.Delete(t.Context(), f.loadTest())
	}()
	r := f.hollow("loadtest run density --name NAME")
	f.Expect(<-deleted).To(Succeed())
	f.Expect(r.code).To(Equal(3))
	f.Expect(r.errOut).To(And(ContainSubstring("loadtest "+f.name+" was deleted: the agents remove what its runs made"), Not(ContainSubstring("continues"))))
}

func TestEachClusterHasALineOrABar(t *testing.T) {
	running := v1alpha1.LoadTestRunStatus{Phase: v1alpha1.LoadTestRunPhaseRunning, Message: "m", Progress: v1alpha1.LoadProgress{Step: "create (1/2)", Steps: 1, StepsTotal: 3, Requests: 12, Failed: 1, PodsCreated: 5, PodsReady: 4}}
	evil := running
	evil.Progress.Step = "\x1b[2Jcreate"
	for _, bars := range []bool{false, true} {
		f := newEnv(t)
		go func() {
			f.whenMade()
			f.loadRun(f.AcceptedCluster().Name, running)
			f.loadRun(f.AcceptedCluster().Name, evil)
			f.hubTests(v1alpha1.LoadTestStatus{ObservedGeneration: 1, Phase: v1alpha1.LoadTestPhaseRunning, Clusters: 2, Message: "2 of 2 runs are in progress"})
			f.pause(time.Second) // A terminal shows a state for a moment.
			f.hubTests(passed())
		}()
		if !bars {
			out := f.succeeds("loadtest run density --name NAME")
			f.Expect(out).To(And(ContainSubstring("Running: 2 of 2 runs are in progress"), MatchRegexp(`  \S+: Running: create \(1/2\): 12 requests, 1 failed, 4 of 5 pods have been Ready`)))
			continue
		}
		screen := newTerminal(t)
		r := f.hollowOn(t.Context(), screen.file, "loadtest run density --name NAME")
		f.Expect(r.code).To(BeZero(), r.errOut)
		f.Eventually(screen.shows).Should(And(ContainSubstring("create (1/2), 12 requests"), ContainSubstring("running, 12 requests"), ContainSubstring("Running in 2 clusters"), ContainSubstring("Passed: 2 of 2")))
		f.Expect(strings.Count(screen.shows(), "\x1b[2Jcreate")).To(BeZero())
	}
}

func TestAReportIsWrittenAndCompared(t *testing.T) {
	f := newEnv(t)
	f.succeeds("loadtest run density --name NAME --no-wait")
	measured := loadtest.Measurements{}
	measured.Record(loadtest.Key{Measurement: v1alpha1.LoadPodReady}, 2*time.Second, 10)
	histograms, _, err := measured.Encode()
	f.Expect(err).NotTo(HaveOccurred())
	cluster := f.AcceptedCluster().Name
	f.loadRun(cluster, v1alpha1.LoadTestRunStatus{Phase: v1alpha1.LoadTestRunPhaseRunning, Histograms: histograms, Environment: &v1alpha1.LoadEnvironment{
		KubernetesVersion: "v1.37.1", Nodes: 4, Processors: 2, Processor: "Some CPU", Profiles: []v1alpha1.LoadNodeCount{{Value: "Fast", Nodes: 4}},
	}})
	f.Expect(f.succeeds("loadtest report NAME")).To(And(ContainSubstring("It is partial"), MatchRegexp(`PodReady +10 +2s`), ContainSubstring(cluster+": Running")), "what is there so far is merged")
	f.hubTests(passed())
	f.Eventually(func() v1alpha1.LoadTestPhase { return f.loadTest().Status.Phase }).Should(Equal(v1alpha1.LoadTestPhaseCompleted))
	dir := t.TempDir()
	for _, form := range []string{"html", "json", "junit", "text"} {
		file := filepath.Join(dir, form)
		f.Expect(f.succeeds("loadtest report NAME -o " + form + " --output-file " + file)).To(Equal("Wrote " + file + "\n"))
		f.Expect(os.ReadFile(file)).To(ContainSubstring(f.name))
	}
	f.Expect(f.succeeds("loadtest compare NAME --baseline " + filepath.Join(dir, "json"))).To(And(ContainSubstring("+0.0%"), ContainSubstring("no regression against "+f.name)))
	baseline, err := os.ReadFile(filepath.Join(dir, "json"))
	f.Expect(err).NotTo(HaveOccurred())
	faster := filepath.Join(dir, "faster")
	f.Expect(os.WriteFile(faster, []byte(strings.ReplaceAll(string(baseline), "1.234s", "1s")), 0o600)).To(Succeed())
	f.Expect(f.stops(5, "1 measurement is longer", "loadtest compare NAME --baseline "+faster)).To(ContainSubstring("regression"))
	f.Expect(f.succeeds("loadtest compare NAME --tolerance 30% --baseline " + faster)).To(ContainSubstring("+23.4%"))
	f.Expect(f.stops(5, "1 measurement is longer", "loadtest compare NAME -o json --baseline "+faster)).To(MatchJSON(`{"name": "` + f.name + `", "baseline": "` + f.name + `",
		"tolerancePercent": 10, "regressions": 1, "measurements": [{"measurement": "PodReady", "p50Before": "1s", "p50": "1.234s", "p99Before": "1s", "p99": "1.234s", "result": "regression"}]}`))
	realistic := filepath.Join(dir, "realistic")
	f.Expect(os.WriteFile(realistic, []byte(strings.ReplaceAll(strings.ReplaceAll(string(baseline), "1.234s", "1s"), `"Fast"`, `"Realistic"`)), 0o600)).To(Succeed())
	r := f.hollow("loadtest compare NAME --baseline " + realistic)
	f.Expect(r.code).To(Equal(4))
	f.Expect(r.out).To(And(ContainSubstring("not comparable"), Not(ContainSubstring("regression"))))
	f.Expect(r.errOut).To(And(ContainSubstring("different: profile: Realistic in "+f.name+", Fast in "+f.name), ContainSubstring("set --allow-different profile")))
	f.Expect(f.stops(5, "1 measurement is longer", "loadtest compare NAME --allow-different profile --baseline "+realistic)).To(ContainSubstring("regression"))
	f.fails(2, "want one of load, clusters, versions", "loadtest compare NAME --allow-different all --baseline "+realistic)
	f.fails(2, "want text or json", "loadtest compare NAME -o html --baseline "+faster)
	f.fails(2, "want --baseline", "loadtest compare NAME")
	f.fails(2, "is not a report", "loadtest compare NAME --baseline "+filepath.Join(dir, "junit"))
	f.fails(2, "want a percentage", "loadtest compare NAME --tolerance some --baseline "+faster)
	f.fails(3, "loadtest no-such-test does not exist: see kubectl hollow loadtest list", "loadtest report no-such-test")
	f.fails(2, "want one of text, html, json, junit", "loadtest report NAME -o pdf")
}

func TestAnImportThatLeavesSomethingOutFailsAndWritesTheRest(t *testing.T) {
	f := newEnv(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		f.Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
		return filepath.Join(dir, name)
	}
	write("pod.yml", "apiVersion: v1\nkind: Pod\nmetadata: {name: \"p-{{.Replica}}\"}\nspec: {containers: [{name: main, image: pause}]}\n")
	write("random.yml", "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData: {a: {{ randAlphaNum 8 }}}\n")
	config := write("burn.yml", "global: {gc: true}\njobs:\n- {name: density, jobIterations: 3, qps: 2, burst: 1, hooks: [], objects: [{objectTemplate: pod.yml}, {objectTemplate: random.yml}]}\n")
	r := f.hollow("loadtest import " + config)
	f.Expect(r.code).To(Equal(1))
	f.Expect(r.errOut).To(And(ContainSubstring("left out: jobs[0].objects[1]: 3 Secret objects: random.yml has {{ randAlphaNum 8 }}"), ContainSubstring("changed: jobs[0].hooks"),
		ContainSubstring("1 lines above start with")))
	imported := write("imported.yaml", r.out)
	f.Expect(f.succeeds("loadtest run --no-wait --name "+f.name+" -f "+imported)).To(ContainSubstring("created"), "the API server takes it as it is")

	config = write("burn.yml", "global: {gc: true}\njobs:\n- {name: density, jobIterations: 3, qps: 2, burst: 1, objects: [{objectTemplate: pod.yml}]}\n")
	r = f.hollow("loadtest import " + config)
	f.Expect(r.code).To(BeZero(), r.errOut)
	f.Expect(r.errOut).To(BeEmpty())
	f.Expect(f.hollow("loadtest import " + write("burn.yml", "jobs: []\n")).out).To(BeEmpty())
	f.fails(1, "at least one job", "loadtest import "+config)
	f.fails(1, "this is a manifest of a LoadTest", "loadtest import "+write("other.yml", "apiVersion: example.com/v1\nkind: LoadTest\n"))
}
