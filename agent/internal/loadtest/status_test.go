package loadtest

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestARunSaysWhatItsReportDoesNotHave(t *testing.T) {
	for kinds, want := range map[int][]string{
		64: nil,
		70: {"6 of 70 kinds of measurements are left out, all of them of requests: one object cannot hold them all"},
	} {
		g := NewWithT(t)
		run := &v1alpha1.LoadTestRun{}
		x := &execution{deps: Deps{Clock: clock.RealClock{}}, simulator: newSimulator(), engine: &engine{run: run, recorder: newRecorder()}}
		x.engine.pods, x.engine.nodes = newPodTracker("", x.engine.recorder.record), newNodeTracker(x.engine.recorder.record)
		for kind := range kinds {
			x.engine.recorder.answered("POST", fmt.Sprintf("kind%d", kind), time.Second, nil, time.Now())
		}
		status := &v1alpha1.LoadTestRunStatus{}
		g.Expect(x.reportEnd(run, status)).To(Succeed())
		g.Expect(status.Histograms).To(HaveLen(64))
		g.Expect(status.Notes).To(Equal(want))
	}
}

func TestVerdict(t *testing.T) {
	met, missed := []v1alpha1.LoadThresholdResult{{Met: true}}, []v1alpha1.LoadThresholdResult{{Met: true}, {}}
	for name, test := range map[string]struct {
		failure string
		invalid []string
		results []v1alpha1.LoadThresholdResult
		want    v1alpha1.LoadVerdict
	}{
		"no thresholds":            {want: ""},
		"all met":                  {results: met, want: v1alpha1.LoadPassed},
		"one missed":               {results: missed, want: v1alpha1.LoadMissed},
		"invalid":                  {invalid: []string{"late"}, results: met, want: v1alpha1.LoadInvalid},
		"invalid, and one missed":  {invalid: []string{"late"}, results: missed, want: v1alpha1.LoadInvalid},
		"invalid, no thresholds":   {invalid: []string{"late"}, want: v1alpha1.LoadInvalid},
		"not in full":              {failure: "stopped", results: met, want: v1alpha1.LoadMissed},
		"not in full, and invalid": {failure: "stopped", invalid: []string{"late"}, want: v1alpha1.LoadMissed},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(verdictOf(test.failure, test.invalid, test.results)).To(Equal(test.want))
		})
	}
}

func TestWhatIsRemovedAtTheEnd(t *testing.T) {
	g := NewWithT(t)
	passed := &v1alpha1.LoadTestRunStatus{Verdict: v1alpha1.LoadPassed}
	for _, status := range []*v1alpha1.LoadTestRunStatus{passed, {}, {Verdict: v1alpha1.LoadMissed}, {Failure: "x", Verdict: v1alpha1.LoadMissed}} {
		g.Expect(removes(v1alpha1.LoadCleanupDelete, status)).To(BeTrue())
		g.Expect(removes("", status)).To(BeTrue())
		g.Expect(removes(v1alpha1.LoadCleanupKeep, status)).To(BeFalse())
	}
	g.Expect(removes(v1alpha1.LoadCleanupDeleteOnSuccess, passed)).To(BeTrue())
	g.Expect(removes(v1alpha1.LoadCleanupDeleteOnSuccess, &v1alpha1.LoadTestRunStatus{})).To(BeTrue(), "no thresholds")
	g.Expect(removes(v1alpha1.LoadCleanupDeleteOnSuccess, &v1alpha1.LoadTestRunStatus{Verdict: v1alpha1.LoadMissed})).To(BeFalse())
	g.Expect(removes(v1alpha1.LoadCleanupDeleteOnSuccess, &v1alpha1.LoadTestRunStatus{Failure: "x"})).To(BeFalse())
}
