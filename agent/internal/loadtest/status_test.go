package loadtest

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/measurement"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Claim: Left-out measurements are counted. Broken: no note.
func TestARunSaysWhatItsReportDoesNotHave(t *testing.T) {
	for kinds, want := range map[int][]string{
		127: nil,
		133: {"6 of 134 kinds of measurements are left out, all of them of requests: they do not fit into one object"},
	} {
		g := NewWithT(t)
		run := &v1alpha1.LoadTestRun{}
		x := &execution{
			deps: Deps{Runtime: poll.Runtime{Clock: clock.RealClock{}}}, simulator: newSimulator(clock.RealClock{}),
			engine: &engine{run: run, Meter: measurement.New(run, clock.RealClock{}, nil)},
		}
		for kind := range kinds {
			x.engine.Recorder.RecordAnswer("POST", fmt.Sprintf("kind%d", kind), measurement.SentRequest{Due: time.Now(), Sent: time.Now()}, nil, time.Now())
		}
		status := &v1alpha1.LoadTestRunStatus{}
		g.Expect(x.reportEnd(run, status)).To(Succeed())
		g.Expect(status.Histograms).To(HaveLen(128), "the wait of requests is one of them")
		g.Expect(status.Notes).To(Equal(want))
	}
}

func TestVerdict(t *testing.T) {
	met, missed := []v1alpha1.LoadThresholdResult{{Met: true}}, []v1alpha1.LoadThresholdResult{{Met: true}, {}}
	late := []string{"late"}
	for name, test := range map[string]struct {
		failure string
		invalid []string
		short   []string
		results []v1alpha1.LoadThresholdResult
		want    v1alpha1.LoadVerdict
	}{
		"no thresholds":                {want: ""},
		"all met":                      {results: met, want: v1alpha1.LoadPassed},
		"one missed":                   {results: missed, want: v1alpha1.LoadMissed},
		"invalid":                      {invalid: late, results: met, want: v1alpha1.LoadInvalid},
		"invalid, and one missed":      {invalid: late, results: missed, want: v1alpha1.LoadInvalid},
		"invalid, no thresholds":       {invalid: late, want: v1alpha1.LoadInvalid},
		"broken off":                   {failure: "stopped", results: met, want: v1alpha1.LoadMissed},
		"broken off, and invalid":      {failure: "stopped", invalid: late, want: v1alpha1.LoadMissed},
		"shortfalls, no thresholds":    {short: late, want: v1alpha1.LoadMissed},
		"shortfalls, and all met":      {short: late, results: met, want: v1alpha1.LoadMissed},
		"shortfalls of an invalid run": {short: late, invalid: late, results: met, want: v1alpha1.LoadInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			status := &v1alpha1.LoadTestRunStatus{Failure: test.failure, Invalid: test.invalid, Shortfalls: test.short, Thresholds: test.results}
			NewWithT(t).Expect(verdictOf(status)).To(Equal(test.want))
		})
	}
}

// Claim: Missing, failed or objectless requests are not in full. Broken: each of its four checks left out; any threshold lets requests fail; no part of the verdict; requests without an object not counted for each action; not in the status (the hub's test not broken alone). Also: TestVerdict, TestRequestsWithoutAnObjectAreNotSilent, TestARunWithFailedRequestsHasNotSucceeded; hub/internal/loadtest TestAClusterWithShortfallsWasNotLoadedInFull.
func TestShortfalls(t *testing.T) {
	errors, ready := v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadErrors}, v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadPodReady}
	why := []v1alpha1.LoadUnready{{Reason: "Unschedulable", Count: 3, Message: "no node fits"}}
	for name, test := range map[string]struct {
		thresholds []v1alpha1.LoadThreshold
		progress   v1alpha1.LoadProgress
		stuck      int64
		lacking    int64
		want       []string
	}{
		"all was done":              {nil, v1alpha1.LoadProgress{Requests: 10}, 0, 0, nil},
		"nothing was asked":         {[]v1alpha1.LoadThreshold{errors, ready}, v1alpha1.LoadProgress{}, 0, 0, []string{"no request was made"}},
		"some failed":               {nil, v1alpha1.LoadProgress{Requests: 10, Failed: 1}, 0, 0, []string{"1 of 10 requests failed"}},
		"all failed":                {nil, v1alpha1.LoadProgress{Requests: 10, Failed: 10}, 0, 0, []string{"10 of 10 requests failed"}},
		"some failed beside others": {[]v1alpha1.LoadThreshold{ready, {Measurement: v1alpha1.LoadAPIRequest}}, v1alpha1.LoadProgress{Requests: 10, Failed: 1}, 0, 0, []string{"1 of 10 requests failed"}},
		"some failed, and may":      {[]v1alpha1.LoadThreshold{errors}, v1alpha1.LoadProgress{Requests: 10, Failed: 1}, 0, 0, nil},
		"some had no object":        {[]v1alpha1.LoadThreshold{errors}, v1alpha1.LoadProgress{Requests: 10, Skipped: 5}, 0, 0, []string{"5 requests were not made"}},
		"all had no object":         {nil, v1alpha1.LoadProgress{Skipped: 5}, 0, 0, []string{"no request was made", "5 requests were not made"}},
		"pods were not Ready":       {[]v1alpha1.LoadThreshold{errors}, v1alpha1.LoadProgress{Requests: 10, PodsCreated: 10}, 3, 0, []string{"3 of 10 pods were never Ready in 10s or more, and no threshold of PodReady says how long they may take; most often Unschedulable: no node fits"}},
		"pods were not created":     {[]v1alpha1.LoadThreshold{errors}, v1alpha1.LoadProgress{Requests: 10, PodsCreated: 2}, 0, 8, []string{"8 of 10 pods were never Ready in 10s or more"}},
		"they are judged otherwise": {[]v1alpha1.LoadThreshold{ready}, v1alpha1.LoadProgress{Requests: 10, PodsCreated: 2}, 0, 8, nil},
		"pods are judged otherwise": {[]v1alpha1.LoadThreshold{ready}, v1alpha1.LoadProgress{Requests: 10, PodsCreated: 10}, 3, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := listShortfalls(test.thresholds, &test.progress, test.stuck, test.lacking, why)
			g.Expect(got).To(HaveLen(len(test.want)))
			for i, want := range test.want {
				g.Expect(got[i]).To(ContainSubstring(want))
			}
		})
	}
}

func TestWhatIsRemovedAtTheEnd(t *testing.T) {
	g := NewWithT(t)
	passed := &v1alpha1.LoadTestRunStatus{Verdict: v1alpha1.LoadPassed}
	for _, status := range []*v1alpha1.LoadTestRunStatus{passed, {}, {Verdict: v1alpha1.LoadMissed}, {Failure: "x", Verdict: v1alpha1.LoadMissed}} {
		g.Expect(removesObjects(v1alpha1.LoadCleanupDelete, status)).To(BeTrue())
		g.Expect(removesObjects("", status)).To(BeTrue())
		g.Expect(removesObjects(v1alpha1.LoadCleanupKeep, status)).To(BeFalse())
	}
	g.Expect(removesObjects(v1alpha1.LoadCleanupDeleteOnSuccess, passed)).To(BeTrue())
	g.Expect(removesObjects(v1alpha1.LoadCleanupDeleteOnSuccess, &v1alpha1.LoadTestRunStatus{})).To(BeTrue(), "no thresholds")
	g.Expect(removesObjects(v1alpha1.LoadCleanupDeleteOnSuccess, &v1alpha1.LoadTestRunStatus{Verdict: v1alpha1.LoadMissed})).To(BeFalse())
	g.Expect(removesObjects(v1alpha1.LoadCleanupDeleteOnSuccess, &v1alpha1.LoadTestRunStatus{Failure: "x"})).To(BeFalse())
}
