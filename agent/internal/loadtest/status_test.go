package loadtest

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

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
