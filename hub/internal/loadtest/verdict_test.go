package loadtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
)

func thresholds(list ...v1alpha1.LoadThreshold) func(*v1alpha1.LoadTestSpec) {
	return func(spec *v1alpha1.LoadTestSpec) { spec.Preset.Thresholds = list }
}

func readyWithin(quantile v1alpha1.LoadQuantile, most time.Duration, scope v1alpha1.LoadThresholdScope) v1alpha1.LoadThreshold {
	return v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadPodReady, Quantile: quantile, Max: &metav1.Duration{Duration: most}, Scope: scope}
}

// One of a hundred clusters in which no pod starts in time has one of a hundred measurements, which a P99 does not see.
// Claim: Good clusters hide no bad one. Broken: by the row of outages and stopped agents only. Also: TestAVerdictIsTrueOrNotGiven, TestTheVerdictAndTheWorstCluster.
func TestABadClusterIsNotHiddenByGoodOnes(t *testing.T) {
	for name, c := range map[string]struct {
		clusters int
		scope    v1alpha1.LoadThresholdScope
		verdict  v1alpha1.LoadVerdict
		missed   int
		says     string
	}{
		"of three, without a scope":    {3, "", v1alpha1.LoadMissed, 1, "3 of 3 clusters were loaded in full, the threshold is met over all clusters together, 1 of 3 clusters does not meet PodReady P50<=5s: c01"},
		"of three, in each":            {3, v1alpha1.LoadScopeEachCluster, v1alpha1.LoadMissed, 1, "1 of 3 clusters does not meet PodReady P50<=5s: c01"},
		"of three, in the fleet":       {3, v1alpha1.LoadScopeFleet, v1alpha1.LoadPassed, 0, "the threshold is met, 1 of 3 clusters does not meet PodReady P50<=5s: c01 (its scope is Fleet)"},
		"of two hundred, in each":      {200, v1alpha1.LoadScopeEachCluster, v1alpha1.LoadMissed, 1, "1 of 200 clusters does not meet PodReady P50<=5s: c01"},
		"of two hundred, in the fleet": {200, v1alpha1.LoadScopeFleet, v1alpha1.LoadPassed, 0, "c01 (its scope is Fleet)"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := begun(c.clusters, thresholds(readyWithin(v1alpha1.LoadP50, 5*time.Second, c.scope)))
			for i := range w.Runs {
				completed(v1alpha1.LoadPassed, time.Second, time.Second)(&w.Runs[i].Status)
			}
			completed(v1alpha1.LoadMissed, 15*time.Second, 15*time.Second)(&w.Runs[1].Status)
			w.step()
			s := &w.Test.Status
			g.Expect(s.Message).To(ContainSubstring(c.says))
			g.Expect(s).To(And(HaveField("Verdict", c.verdict), HaveField("Missed", BeEquivalentTo(c.missed))))
			g.Expect(s.Thresholds[0]).To(And(HaveField("Met", true), HaveField("MissedClusters", BeEquivalentTo(1)), HaveField("MissedIn", []string{"c01"})))
		})
	}
}

func TestAClusterWithShortfallsWasNotLoadedInFull(t *testing.T) {
	g := NewWithT(t)
	w := begun(2, thresholds())
	for i := range w.Runs {
		completed("", time.Second)(&w.Runs[i].Status)
	}
	status := &w.Runs[1].Status
	status.Verdict, status.Shortfalls, status.Progress.Failed = v1alpha1.LoadMissed, []string{"4 of 5 requests failed"}, 4
	w.step()
	g.Expect(w.Test.Status).To(And(HaveField("Verdict", v1alpha1.LoadMissed), HaveField("Completed", BeEquivalentTo(1)), HaveField("Failed", BeEquivalentTo(1)),
		HaveField("Failures", ConsistOf(v1alpha1.ClusterFailure{Cluster: "c01", Message: "4 of 5 requests failed"})),
		HaveField("Message", And(ContainSubstring("1 of 2 clusters were loaded"), Not(ContainSubstring("in full"))))))
}

func TestUnreadyPodsAreToldWithTheirReasons(t *testing.T) {
	g := NewWithT(t)
	w := begun(2, nil)
	w.say(completed(v1alpha1.LoadMissed, time.Second))
	w.say(func(s *v1alpha1.LoadTestRunStatus) {
		s.Unready = []v1alpha1.LoadUnready{{Reason: "Unschedulable", Count: 3, Message: "no node"}, {Reason: "ErrImagePull", Count: 1}}
	})
	for i := range w.Runs { // It is over already, so that nothing is said to it.
		w.Runs[i].Status.Unready = []v1alpha1.LoadUnready{{Reason: "Unschedulable", Count: 3, Message: "no node"}, {Reason: "ErrImagePull", Count: 1}}
	}
	w.step()
	g.Expect(w.Test.Status.Unready).To(Equal([]v1alpha1.LoadUnready{{Reason: "Unschedulable", Count: 6, Message: "no node"}, {Reason: "ErrImagePull", Count: 2}}))
	g.Expect(w.Test.Status.Message).To(ContainSubstring("8 pods were never Ready (most often Unschedulable)"))
}

// Whatever happens to the runs: a test passes only if every cluster was loaded in full, no run is Invalid, and every threshold is met
// where its scope says; and it is not called Invalid, or nothing at all, if a valid cluster has failed.
func TestAVerdictIsTrueOrNotGiven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scope := rapid.SampledFrom([]v1alpha1.LoadThresholdScope{"", v1alpha1.LoadScopeFleet, v1alpha1.LoadScopeEachCluster}).Draw(t, "scope")
		within := readyWithin(v1alpha1.LoadP99, 5*time.Second, scope)
		clusters := rapid.IntRange(1, 5).Draw(t, "clusters")
		w := begun(clusters, thresholds(within))
		broken, invalid, slow := map[string]bool{}, map[string]bool{}, map[string]bool{}
		valid := loadtest.Measurements{}
		for i := range w.Runs {
			run := &w.Runs[i]
			took := []time.Duration{time.Second, time.Second}
			if rapid.IntRange(0, 3).Draw(t, "slow") == 0 {
				slow[run.Namespace], took = true, []time.Duration{time.Second, 7 * time.Second}
			}
			completed(v1alpha1.LoadPassed, took...)(&run.Status)
			switch rapid.IntRange(0, 7).Draw(t, "trouble") {
			case 0:
				broken[run.Namespace] = true
				run.Status.Phase, run.Status.Failure, run.Status.Verdict = v1alpha1.LoadTestRunPhaseFailed, "timeout", v1alpha1.LoadMissed
			case 1:
				broken[run.Namespace] = true
				run.Status.Shortfalls, run.Status.Verdict = []string{"no request was made"}, v1alpha1.LoadMissed
			case 2:
				invalid[run.Namespace] = true
				run.Status.Invalid, run.Status.Verdict = []string{"the agent stood still"}, v1alpha1.LoadInvalid
			case 3:
				broken[run.Namespace] = true
				run.Status.Histograms[0].Data = []byte("nonsense")
			}
			if !invalid[run.Namespace] {
				if decoded, err := loadtest.Decode(run.Status.Histograms); err == nil {
					valid.Merge(decoded)
				}
			}
		}
		w.step()
		s := &w.Test.Status
		missed := false
		for cluster := range slow {
			missed = missed || !invalid[cluster] && scope != v1alpha1.LoadScopeFleet
		}
		missed = missed || len(invalid) < clusters && !loadtest.Evaluate([]v1alpha1.LoadThreshold{within}, valid, 0, 0)[0].Met
		want := v1alpha1.LoadPassed
		switch {
		case len(broken) > 0 || missed:
			want = v1alpha1.LoadMissed
		case len(invalid) > 0:
			want = v1alpha1.LoadInvalid
		}
		if s.Verdict != want {
			t.Fatalf("%d clusters, broken %v, invalid %v, slow %v, scope %q: the verdict is %s, not %s: %s", clusters, broken, invalid, slow, scope, s.Verdict, want, s.Message)
		}
		if int(s.Completed) != clusters-len(broken) || int(s.Invalid) != len(invalid) || len(s.InvalidRuns) != len(invalid) {
			t.Fatalf("%d of %d clusters were loaded in full, %d are invalid", s.Completed, clusters, s.Invalid)
		}
		for cluster := range slow {
			if named := strings.Contains(s.Message, cluster); !named && !invalid[cluster] && !broken[cluster] {
				t.Fatalf("%s does not meet the threshold and is not named: %s", cluster, s.Message)
			}
		}
	})
}

func TestTheMessageNamesAFewOfManyClusters(t *testing.T) {
	g := NewWithT(t)
	w := begun(60, thresholds(readyWithin(v1alpha1.LoadP50, 5*time.Second, "")))
	w.say(completed(v1alpha1.LoadMissed, 15*time.Second))
	w.step()
	g.Expect(w.Test.Status.Thresholds[0].MissedIn).To(HaveLen(loadtest.MostNamed))
	g.Expect(w.Test.Status.Message).To(ContainSubstring(fmt.Sprintf("c19 and %d more", 60-loadtest.MostNamed)))
}

// A run of a cluster with many kinds has room for the most frequent ones in its status. What its agent says of a threshold rests on all.
// Claim: What no histogram has room for still counts. Broken: histograms count as all there is; what a run says of its thresholds is not asked for; only the last run is.
// Edge case: A fleet passed without its slow requests.
func TestMeasurementsThatWereLeftOutCount(t *testing.T) {
	slow := v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadAPIServerRequest, Quantile: v1alpha1.LoadMax, Max: &metav1.Duration{Duration: time.Second}, Scope: v1alpha1.LoadScopeFleet}
	many := func(first, kinds int, longest time.Duration) func(*v1alpha1.LoadTestRun) {
		return func(run *v1alpha1.LoadTestRun) {
			measured := loadtest.Measurements{}
			for kind := range kinds {
				measured.Record(loadtest.Key{Measurement: v1alpha1.LoadAPIServerRequest, Verb: "GET", Resource: fmt.Sprint("kind", first+kind)}, time.Millisecond, 2)
			}
			measured.Record(loadtest.Key{Measurement: v1alpha1.LoadAPIServerRequest, Verb: "PUT", Resource: fmt.Sprint("kind", first)}, longest, 1)
			completed("", time.Second)(&run.Status)
			run.Status.Histograms, _, _ = measured.Encode()
			run.Status.Thresholds = loadtest.Evaluate(run.Spec.Thresholds, measured, 0, 0)
		}
	}
	for name, c := range map[string]struct {
		runs    []func(*v1alpha1.LoadTestRun)
		met     bool
		count   int
		longest time.Duration
	}{
		"all have room":                           {[]func(*v1alpha1.LoadTestRun){many(0, 10, time.Millisecond), many(0, 10, time.Millisecond)}, true, 42, time.Millisecond},
		"a slow one has room":                     {[]func(*v1alpha1.LoadTestRun){many(0, 10, time.Millisecond), many(0, 10, time.Minute)}, false, 42, time.Minute},
		"a slow one has none in a status":         {[]func(*v1alpha1.LoadTestRun){many(0, 140, time.Minute), many(0, 10, time.Millisecond)}, false, 302, time.Minute},
		"a fast one has none in a status":         {[]func(*v1alpha1.LoadTestRun){many(0, 140, time.Millisecond), many(0, 10, time.Millisecond)}, true, 302, time.Millisecond},
		"a slow one has none in the hub's memory": {[]func(*v1alpha1.LoadTestRun){many(0, 100, time.Millisecond), many(200, 100, time.Minute)}, false, 402, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := begun(2, thresholds(slow))
			for i := range w.Runs {
				c.runs[i](&w.Runs[i])
			}
			w.step()
			s := &w.Test.Status
			g.Expect(s.Thresholds).To(ConsistOf(And(HaveField("Met", c.met), HaveField("Count", BeEquivalentTo(c.count)),
				HaveField("Measured.Duration", BeNumerically("~", c.longest, c.longest/100)))), s.Message)
			g.Expect(s.Verdict).To(Equal(map[bool]v1alpha1.LoadVerdict{true: v1alpha1.LoadPassed, false: v1alpha1.LoadMissed}[c.met]))
		})
	}
}

// Clusters leave, and runs are deleted, while a test runs: the others are not all, and the message says so.
// Claim: A run that is deleted during the test counts as failed. Broken: it is not counted; the message sends to a list that does not have it.
func TestRunsThatAreDeletedDuringTheTestAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*World)
		failures []string
		says     []string
	}{
		"a run": {func(w *World) { w.Runs = w.Runs[:2] }, nil, []string{"2 of 3 clusters were loaded in full", "1 LoadTestRun was deleted during the test"}},
		"a cluster with its run": {func(w *World) { w.Runs, w.Clusters = w.Runs[:2], w.Clusters[:2] }, nil,
			[]string{"2 of 3 clusters were loaded in full", "1 LoadTestRun was deleted during the test"}},
		"a run, and another fails": {func(w *World) { w.Runs, w.Runs[0].Status.Failure = w.Runs[:2], "timeout" }, []string{"c00"},
			[]string{"1 of 3 clusters were loaded in full", "see status.failures for the others", "1 LoadTestRun was deleted during the test"}},
		"all": {func(w *World) { w.Runs = nil }, nil, []string{"0 of 3 clusters were loaded in full", "3 LoadTestRuns were deleted during the test"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := begun(3, nil)
			w.say(completed(v1alpha1.LoadPassed, time.Second))
			c.change(w)
			w.step()
			s := &w.Test.Status
			g.Expect(s).To(And(HaveField("Verdict", v1alpha1.LoadMissed), HaveField("Partial", true), HaveField("Clusters", BeEquivalentTo(3))))
			for _, said := range c.says {
				g.Expect(s.Message).To(ContainSubstring(said))
			}
			var names []string
			for _, failure := range s.Failures {
				names = append(names, failure.Cluster)
			}
			g.Expect(names).To(Equal(c.failures))
			if c.failures == nil {
				g.Expect(s.Message).NotTo(ContainSubstring("status.failures"))
			}
		})
	}
}

// A Cluster that is removed before the beginning, when its run is there already, stays one that was to be loaded.
func TestAClusterThatLeavesBeforeTheBeginningCounts(t *testing.T) {
	g := NewWithT(t)
	w := world(3)
	w.Clusters[2].Status.Conditions[1].Status = metav1.ConditionTrue // Frozen: nothing may start there yet.
	w.step()
	g.Expect(w.Runs).To(HaveLen(2))
	w.Clusters = w.Clusters[1:]
	w.step()
	g.Expect(w.Test.Status).To(And(HaveField("Clusters", BeEquivalentTo(3)), HaveField("Failed", BeNumerically(">=", 1))), w.Test.Status.Message)
	w.say(phase(v1alpha1.LoadTestRunPhasePrepared))
	w.Now = w.Now.Add(2 * time.Minute)
	w.step()
	w.Runs[1].Status.Phase = v1alpha1.LoadTestRunPhaseRunning
	w.step()
	completed(v1alpha1.LoadPassed, time.Second)(&w.Runs[1].Status)
	w.step()
	g.Expect(w.Test.Status).To(And(HaveField("Verdict", v1alpha1.LoadMissed), HaveField("Clusters", BeEquivalentTo(3)), HaveField("Completed", BeEquivalentTo(1)), HaveField("Failed", BeEquivalentTo(2))),
		w.Test.Status.Message)
	g.Expect(w.Test.Status.Failures).To(ConsistOf(HaveField("Cluster", "c00"), HaveField("Cluster", "c02")))
}
