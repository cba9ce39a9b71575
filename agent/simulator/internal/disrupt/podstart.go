package disrupt

import (
	"time"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"
)

// PodStart tells how the start of a pod is disturbed: how long it waits, and why it fails then; empty if it does not.
func (s *State) PodStart(node, uid string) (delay time.Duration, failure string) {
	for i := range s.PodStarts {
		e := &s.PodStarts[i]
		if p := e.Fault.PodStartDelay; e.Fault.Type == plan.PodStartDelay {
			delay += p.Delay.Duration + plan.Spread(p.Jitter.Duration, e.Seed, "pod", node, e.UID, e.Index, uid)
			continue
		}
		var percent int32
		if p := e.Fault.PodStartFail; p != nil {
			percent = p.Percent
		}
		if plan.Hits(percent, e.Seed, "pod", node, e.UID, e.Index, uid) {
			failure = "disrupted by " + e.Run
		}
	}
	return delay, failure
}
