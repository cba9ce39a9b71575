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
