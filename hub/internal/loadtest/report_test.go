package loadtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fanout"
	"github.com/hollowfleet/hollowfleet/hub/internal/loadtest/preset"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
)

// What is measured at another time than in the other clusters is no part of the same load.
// Claim: A late run is a failure. Broken: the time of its beginning is not asked for.
func TestARunThatDidNotBeginWithTheOthersIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*World)
		says   string
	}{
		"late": {func(w *World) {
			w.Runs[1].Status.StartTime = &metav1.Time{Time: w.Runs[1].Spec.StartTime.Add(72 * time.Second)}
		}, "it started 1m12s after the others"},
		"a clock that is behind": {func(w *World) { w.Clusters[1].Status.ClockSkew = &metav1.Duration{Duration: -10 * time.Minute} },
			"its agent's clock is 10m0s behind the hub's"},
		"a moment later": {func(w *World) {
			w.Runs[1].Status.StartTime = &metav1.Time{Time: w.Runs[1].Spec.StartTime.Add(lateStart)}
			w.Clusters[1].Status.ClockSkew = &metav1.Duration{Duration: lateStart}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := begun(2, nil)
			for i := range w.Runs {
				completed(v1alpha1.LoadPassed, time.Second)(&w.Runs[i].Status)
			}
			c.change(w)
			w.step()
			s := &w.Test.Status
			if c.says == "" {
				g.Expect(s).To(And(HaveField("Failures", BeEmpty()), HaveField("Completed", BeEquivalentTo(2)), HaveField("Verdict", v1alpha1.LoadPassed)))
				return
			}
			g.Expect(s.Failures).To(ConsistOf(And(HaveField("Cluster", "c01"), HaveField("Message", ContainSubstring(c.says)))))
			g.Expect(s).To(And(HaveField("Partial", true), HaveField("Verdict", v1alpha1.LoadMissed), HaveField("Completed", BeEquivalentTo(1))))
		})
	}
}

func TestTheVerdictAndTheWorstCluster(t *testing.T) {
	fast, slow := []time.Duration{time.Second, time.Second}, []time.Duration{time.Second, 7 * time.Second}
	for name, c := range map[string]struct {
		verdicts []v1alpha1.LoadVerdict
		ready    [][]time.Duration
		failure  string
		without  bool
		want     v1alpha1.LoadVerdict
		says     string
	}{
		"passed":                    {[]v1alpha1.LoadVerdict{"Passed", "Passed"}, [][]time.Duration{fast, fast}, "", false, "Passed", "all 3 thresholds are met"},
		"missed by all":             {[]v1alpha1.LoadVerdict{"Passed", "Failed"}, [][]time.Duration{fast, slow}, "", false, "Failed", "PodReady P99 7s, not 5s"},
		"one is invalid":            {[]v1alpha1.LoadVerdict{"Passed", "Invalid"}, [][]time.Duration{fast, fast}, "", false, "Invalid", "the measurements of 1 of 2 clusters are invalid: c01 (the agent stood still)"},
		"missed by an invalid one":  {[]v1alpha1.LoadVerdict{"Passed", "Invalid"}, [][]time.Duration{fast, slow}, "", false, "Invalid", "all 3 thresholds are met, the measurements of 1 of 2 clusters"},
		"missed and one is invalid": {[]v1alpha1.LoadVerdict{"Failed", "Invalid"}, [][]time.Duration{slow, slow}, "", false, "Failed", "1 of 2 clusters does not meet PodReady P99<=5s: c00"},
		"all are invalid":           {[]v1alpha1.LoadVerdict{"Invalid", "Invalid"}, [][]time.Duration{slow, slow}, "", false, "Invalid", "are invalid: c00 c01"},
		"one has failed":            {[]v1alpha1.LoadVerdict{"Passed", "Failed"}, [][]time.Duration{fast, fast}, "the quota is used up", false, "Failed", "1 of 2 clusters were loaded in full"},
		"without thresholds":        {[]v1alpha1.LoadVerdict{"", ""}, [][]time.Duration{fast, slow}, "", true, "", "2 of 2 clusters were loaded in full"},
		"nothing was measured":      {[]v1alpha1.LoadVerdict{"Failed", "Failed"}, [][]time.Duration{nil, nil}, "", false, "Failed", "PodReady P99 not measured, not 5s"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := begun(2, func(spec *v1alpha1.LoadTestSpec) {
				if c.without {
					load, _, err := preset.Expand(spec.Preset, 1)
					g.Expect(err).NotTo(HaveOccurred())
					load.Thresholds = nil
					spec.Preset, spec.Load = nil, &load
				}
			})
			for i := range w.Runs {
				completed(c.verdicts[i], c.ready[i]...)(&w.Runs[i].Status)
				if c.verdicts[i] == v1alpha1.LoadInvalid {
					w.Runs[i].Status.Invalid = []string{"the agent stood still"}
				}
			}
			if c.failure != "" {
				w.Runs[1].Status.Phase, w.Runs[1].Status.Failure = v1alpha1.LoadTestRunPhaseFailed, c.failure
			}
			w.step()
			g.Expect(w.Test.Status.Verdict).To(Equal(c.want))
			g.Expect(w.Test.Status.Message).To(ContainSubstring(c.says))
			if c.ready[1] != nil && c.ready[0][1] != 7*time.Second && c.ready[1][1] == 7*time.Second {
				g.Expect(w.Test.Status.Results[0]).To(And(HaveField("WorstCluster", "c01"), HaveField("WorstP99.Duration", BeNumerically("~", 7*time.Second, 10*time.Millisecond)), HaveField("Count", BeEquivalentTo(4))))
			}
		})
	}
}

func TestMeasurementsThatCannotBeReadAreAFailure(t *testing.T) {
	g := NewWithT(t)
	w := begun(2, nil)
	w.say(completed(v1alpha1.LoadPassed, time.Second))
	w.Runs[0].Status.Histograms[0].Data = []byte("nonsense")
	w.step()
	g.Expect(w.Test.Status).To(And(HaveField("Verdict", v1alpha1.LoadMissed), HaveField("Failed", BeEquivalentTo(1)), HaveField("Completed", BeEquivalentTo(1)), HaveField("Partial", true),
		HaveField("Failures", ConsistOf(And(HaveField("Cluster", "c00"), HaveField("Message", ContainSubstring("what it measured cannot be read")))))))
}

// Claim: 500 clusters fit in 64 KiB. Broken: all failures are named.
func TestTheStatusIsBounded(t *testing.T) {
	g := NewWithT(t)
	w := begun(500, func(spec *v1alpha1.LoadTestSpec) {
		for i := range 16 {
			spec.Preset.Thresholds = append(spec.Preset.Thresholds, v1alpha1.LoadThreshold{
				Measurement: v1alpha1.LoadAPIRequest, Verb: "POST", Resource: strings.Repeat("r", 100) + fmt.Sprint(i), Max: &metav1.Duration{Duration: time.Nanosecond},
			})
		}
	})
	for i := range w.Runs {
		measured := loadtest.Measurements{}
		for j := range 5 {
			measured.Record(loadtest.Key{Measurement: v1alpha1.LoadAPIRequest, Verb: "POST", Resource: strings.Repeat("r", 100) + fmt.Sprint((5*i+j)%300)}, time.Second, 1)
		}
		status := &w.Runs[i].Status
		status.Histograms, _, _ = measured.Encode()
		status.Phase, status.Failure = v1alpha1.LoadTestRunPhaseFailed, strings.Repeat("no ", 300)
	}
	w.step()
	text, err := json.Marshal(w.Test.Status)
	g.Expect(err).NotTo(HaveOccurred())
	t.Logf("%d bytes", len(text))
	g.Expect(len(text)).To(BeNumerically("<", 64<<10))
	g.Expect(w.Test.Status).To(And(HaveField("Failures", HaveLen(fanout.MostFailures)), HaveField("Failed", BeEquivalentTo(500)), HaveField("Results", HaveLen(loadtest.MostResults))))
}
