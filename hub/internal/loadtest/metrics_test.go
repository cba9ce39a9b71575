package loadtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// hubCache has the LoadTests that a hub's cache has.
type hubCache struct {
	client.Reader
	tests map[string]v1alpha1.LoadTestStatus
}

// List implements client.Reader.
func (c *hubCache) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	list, is := into.(*v1alpha1.LoadTestList)
	if !is {
		return errors.New("not cached")
	}
	for name, status := range c.tests {
		test := v1alpha1.LoadTest{Status: status}
		test.Name = name
		list.Items = append(list.Items, test)
	}
	return nil
}

// Claim: A metric says of each LoadTest that is over whether its verdict is Passed, and ends with the leadership of the hub. Broken: one that runs shown; Invalid counted as passed; one that could not be started left out.
func TestMetricsOfLoadTests(t *testing.T) {
	g := NewWithT(t)
	shown := &collector{}
	end := shown.readers.Add(&hubCache{tests: map[string]v1alpha1.LoadTestStatus{
		"passed":      {Phase: v1alpha1.LoadTestPhaseCompleted, Verdict: v1alpha1.LoadPassed},
		"missed":      {Phase: v1alpha1.LoadTestPhaseCompleted, Verdict: v1alpha1.LoadMissed},
		"invalid":     {Phase: v1alpha1.LoadTestPhaseCompleted, Verdict: v1alpha1.LoadInvalid},
		"not-started": {Phase: v1alpha1.LoadTestPhaseFailed},
		"running":     {Phase: v1alpha1.LoadTestPhaseRunning},
		"new":         {},
	}})
	g.Expect(testutil.CollectAndCompare(shown, strings.NewReader(`
# HELP hollowfleet_hub_load_test_failed 1 if a LoadTest is over and its verdict is not Passed, 0 if it is; absent until it is over.
# TYPE hollowfleet_hub_load_test_failed gauge
hollowfleet_hub_load_test_failed{load_test="invalid"} 1
hollowfleet_hub_load_test_failed{load_test="missed"} 1
hollowfleet_hub_load_test_failed{load_test="not-started"} 1
hollowfleet_hub_load_test_failed{load_test="passed"} 0
`))).To(Succeed())
	end()
	g.Expect(testutil.CollectAndCount(shown)).To(BeZero(), "a hub that does not lead shows none")
}
