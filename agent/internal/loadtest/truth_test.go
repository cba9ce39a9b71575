package loadtest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestRequestsWithoutAnObjectAreNotSilent(t *testing.T) {
	t.Parallel()
	deletes := v1alpha1.LoadPhase{Action: v1alpha1.LoadDelete, Template: "thing", Replicas: 3}
	churns := repeats(v1alpha1.LoadChurn, time.Second)
	churns.ChurnPercent = 50
	for name, test := range map[string]struct {
		steps [][]v1alpha1.LoadPhase
		want  []string
	}{
		"nothing but a pause":        {[][]v1alpha1.LoadPhase{waits(time.Second)}, []string{"no request was made"}},
		"get":                        {[][]v1alpha1.LoadPhase{{repeats(v1alpha1.LoadGet, time.Second)}}, []string{"no request was made", "20 requests were not made"}},
		"patch":                      {[][]v1alpha1.LoadPhase{{repeats(v1alpha1.LoadPatch, time.Second)}}, []string{"no request was made", "20 requests were not made"}},
		"churn":                      {[][]v1alpha1.LoadPhase{{churns}}, []string{"no request was made", "requests were not made"}},
		"delete":                     {[][]v1alpha1.LoadPhase{{deletes}}, []string{"no request was made", "3 requests were not made"}},
		"delete more than there are": {[][]v1alpha1.LoadPhase{creates(2), {deletes}}, []string{"1 request was not made"}},
		"list, which needs none":     {[][]v1alpha1.LoadPhase{{repeats(v1alpha1.LoadList, time.Second)}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			status := b.expectEnded(b.create("silent", configMap, nil, test.steps...))
			b.Expect(status.Shortfalls).To(HaveLen(len(test.want)), status.Message)
			for i, want := range test.want {
				b.Expect(status.Shortfalls[i]).To(ContainSubstring(want))
				b.Expect(status.Message).To(ContainSubstring(want))
			}
			if len(test.want) > 0 {
				// On a busy machine the agent may have stalled as well, which makes the run Invalid.
				b.Expect(status.Verdict).To(BeElementOf(v1alpha1.LoadMissed, v1alpha1.LoadInvalid), status.Message)
			} else {
				b.Expect(status.Verdict).To(BeElementOf(v1alpha1.LoadVerdict(""), v1alpha1.LoadInvalid))
			}
		})
	}
}

// A run of which requests failed is no success because nobody has set a threshold, and what failed is told beside what did not.
func TestARunWithFailedRequestsHasNotSucceeded(t *testing.T) {
	t.Parallel()
	for name, thresholds := range map[string][]v1alpha1.LoadThreshold{
		"no threshold":             nil,
		"one of something else":    {{Measurement: v1alpha1.LoadAPIRequest, Max: &metav1.Duration{Duration: time.Hour}}},
		"one that lets some do so": {{Measurement: v1alpha1.LoadErrors, MaxPercent: new(int32(90))}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			b.stop()
			b.refuse = func(request *http.Request) bool {
				return request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/configmaps") && request.URL.Query().Get("dryRun") == "" && strings.Contains(request.URL.Path, "/load-") &&
					time.Now().UnixMilli()%2 == 0
			}
			b.start()
			status := b.expectEnded(b.create("failing", configMap, func(spec *v1alpha1.LoadTestRunSpec) { spec.Thresholds = thresholds },
				[]v1alpha1.LoadPhase{{Action: v1alpha1.LoadCreate, Template: "thing", Replicas: 60, Tuning: v1alpha1.LoadTuning{QPS: 37}}}))
			p := status.Progress
			b.Expect(p.Failed).To(And(BeNumerically(">", 0), BeNumerically("<", 60)), status.Message)
			b.Expect(measuredIn(status, v1alpha1.LoadAPIRequestFailed, "POST")).To(Equal(p.Failed), "they are told beside the others")
			b.Expect(measuredIn(status, v1alpha1.LoadAPIRequest, "POST")).To(Equal(p.Requests - p.Failed))
			if name == "one that lets some do so" {
				b.Expect(status.Shortfalls).To(BeEmpty())
				b.Expect(status.Verdict).To(BeElementOf(v1alpha1.LoadPassed, v1alpha1.LoadInvalid))
				return
			}
			b.Expect(status.Shortfalls).To(ConsistOf(ContainSubstring("requests failed, and no threshold of Errors")))
			b.Expect(status.Verdict).To(BeElementOf(v1alpha1.LoadMissed, v1alpha1.LoadInvalid))
		})
	}
}

// An API server that stops answering for a while is slow for every request that was due then, and not for the first hundred only.
func TestRequestsThatCouldNotBeSentInTimeAreNotFast(t *testing.T) {
	b := newEnv(t)
	b.stop()
	var begun time.Time
	b.refuse = func(request *http.Request) bool {
		if request.Method == http.MethodGet && strings.Contains(request.URL.Path, "/configmaps/") {
			b.mu.Lock()
			if begun.IsZero() {
				begun = time.Now()
			}
			until := begun.Add(3 * time.Second)
			b.mu.Unlock()
			if passed := time.Since(begun); passed > 500*time.Millisecond {
				<-time.After(time.Until(until)) // The outage.
			}
		}
		return false
	}
	b.start()
	get := repeats(v1alpha1.LoadGet, 4*time.Second)
	get.Tuning.QPS = 200
	status := b.expectEnded(b.create("outage", configMap, nil, creates(3), []v1alpha1.LoadPhase{get}))
	for _, one := range status.Histograms {
		switch {
		case one.Measurement == v1alpha1.LoadAPIRequest && one.Verb == "GET":
			b.Expect(one.Count).To(BeEquivalentTo(800))
			b.Expect(one.P50.Duration).To(BeNumerically(">", 300*time.Millisecond), "500 of 800 were due while nothing was answered")
			b.Expect(one.P90.Duration).To(BeNumerically(">", 1500*time.Millisecond))
		case one.Measurement == v1alpha1.LoadAPIRequestWait:
			b.Expect(one.Max.Duration).To(BeNumerically(">", time.Second))
		}
	}
	b.Expect(status.Progress.Delayed).To(BeNumerically(">", 300))
	b.Expect(status.Notes).To(ContainElement(ContainSubstring("requests waited up to")))
}
