package loadtest

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/measurement"
)

// Claim: Late nodes or agents make a run Invalid. Broken: saturation alone makes it so.
func TestInvalidity(t *testing.T) {
	for name, test := range map[string]struct {
		facts simulatorFacts
		want  []string
	}{
		"all is well":                    {simulatorFacts{Nodes: 100, Requests: 1000, CPUSeconds: 100, SaturatedPercent: 50}, nil},
		"nothing is known":               {simulatorFacts{}, nil},
		"a busy machine alone":           {simulatorFacts{Nodes: 100, Requests: 1000, CPUSeconds: 600, SaturatedPercent: 100}, nil},
		"5 % of the Nodes":               {simulatorFacts{Nodes: 100, LateNodes: 5}, nil},
		"more than 5 % of the Nodes":     {simulatorFacts{Nodes: 100, LateNodes: 6}, []string{"6 of 100 Nodes"}},
		"the only Node":                  {simulatorFacts{Nodes: 1, LateNodes: 1}, []string{"1 of 1 Nodes"}},
		"the queue of the only Node":     {simulatorFacts{Nodes: 1, LateQueues: 1}, []string{"kubelets of 1 of 1 Nodes were late"}},
		"heartbeats of none were seen":   {simulatorFacts{Unseen: 20, Requests: 100}, []string{"no heartbeat of 20 hollow Nodes was seen"}},
		"heartbeats of some were seen":   {simulatorFacts{Unseen: 20, Nodes: 1, Requests: 100}, nil},
		"one of few Nodes":               {simulatorFacts{Nodes: 3, LateNodes: 1}, nil},
		"two of few Nodes":               {simulatorFacts{Nodes: 3, LateNodes: 2}, []string{"2 of 3 Nodes"}},
		"queues of 5 % of the Nodes":     {simulatorFacts{Nodes: 100, LateQueues: 5}, nil},
		"queues of more than 5 %":        {simulatorFacts{Nodes: 100, LateQueues: 6}, []string{"kubelets of 6 of 100 Nodes were late with pods"}},
		"one queue of few":               {simulatorFacts{Nodes: 3, LateQueues: 1}, nil},
		"a busy machine, a late queue":   {simulatorFacts{Nodes: 100, LateQueues: 1, CPUSeconds: 30, SaturatedPercent: 91}, []string{"processors"}},
		"25 % starved":                   {simulatorFacts{Nodes: 20, StarvedKubelets: 5, CPUSeconds: 100, SaturatedPercent: 100}, nil},
		"more than 25 % starved":         {simulatorFacts{Nodes: 20, StarvedKubelets: 6}, []string{"kubelets of 6 of 20 Nodes waited"}},
		"one of three starved":           {simulatorFacts{Nodes: 3, StarvedKubelets: 1}, []string{"kubelets of 1 of 3 Nodes waited"}},
		"5 % of the requests":            {simulatorFacts{Requests: 100, LateRequests: 5}, nil},
		"more than 5 % of the requests":  {simulatorFacts{Requests: 100, LateRequests: 6}, []string{"6 of 100 requests"}},
		"a busy machine, one late":       {simulatorFacts{Nodes: 100, LateNodes: 1, CPUSeconds: 30, SaturatedPercent: 91}, []string{"processors"}},
		"a busy machine, a late request": {simulatorFacts{Requests: 100, LateRequests: 1, CPUSeconds: 30, SaturatedPercent: 91}, []string{"processors"}},
		"busy for 90 % of the time":      {simulatorFacts{Nodes: 100, LateNodes: 1, CPUSeconds: 30, SaturatedPercent: 90}, nil},
		"busy, but not watched for long": {simulatorFacts{Nodes: 100, LateNodes: 1, CPUSeconds: 29, SaturatedPercent: 100}, nil},
		"the agent stood still":          {simulatorFacts{Requests: 100, Stalls: 1, LongestStall: 9 * time.Second}, []string{"the agent stalled once, for up to 9s"}},
		"a watch was interrupted":        {simulatorFacts{Requests: 100, Interruptions: 2}, []string{"a watch of the agent was interrupted 2 times"}},
		"a watch was behind":             {simulatorFacts{Requests: 100, WatchLag: 2500 * time.Millisecond}, []string{"watch of pods was up to 2.5s behind"}},
		"a watch may have been behind":   {simulatorFacts{Requests: 100, WatchLag: measurement.LongestLag}, nil},
		"everything":                     {simulatorFacts{Nodes: 10, LateNodes: 10, Requests: 10, LateRequests: 10, CPUSeconds: 60, SaturatedPercent: 100}, []string{"Nodes", "requests", "processors"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			reasons := invalidReasons(test.facts)
			g.Expect(reasons).To(HaveLen(len(test.want)))
			for i, want := range test.want {
				g.Expect(reasons[i]).To(ContainSubstring(want))
			}
		})
	}
}

// Where processors were always busy, nobody can say that the simulator was no bottleneck.
// Claim: Busy processors leave a doubt. Broken: busy processors, or saturated ones, leave none.
func TestDoubts(t *testing.T) {
	for name, test := range map[string]struct {
		facts simulatorFacts
		want  []string
	}{
		"all is well":            {simulatorFacts{Nodes: 100, Requests: 1000, CPUSeconds: 100, BusyPercent: 60, SaturatedPercent: 20}, nil},
		"nothing is known":       {simulatorFacts{}, nil},
		"always busy":            {simulatorFacts{CPUSeconds: 8, BusyPercent: 100, SaturatedPercent: 100}, []string{"busy for 100 %, and saturated in 100 %"}},
		"saturated half of time": {simulatorFacts{CPUSeconds: 8, BusyPercent: 70, SaturatedPercent: 50}, []string{"saturated in 50 %"}},
		"one of many":            {simulatorFacts{Nodes: 100, LateNodes: 1, LateQueues: 2, StarvedKubelets: 3, Requests: 9, LateRequests: 1}, []string{"1 of 100 Nodes", "2 of 100", "3 of 100", "1 of 9"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := listDoubts(test.facts)
			g.Expect(got).To(HaveLen(len(test.want)))
			for i, want := range test.want {
				g.Expect(got[i]).To(ContainSubstring(want))
			}
		})
	}
}
