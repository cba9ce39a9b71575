package machine

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// limitedMessage is the same for all that wait: it must not be written anew with every place in the queue.
const limitedMessage = "for a while after a freeze only some machines are drained or removed each minute, and this one waits for its turn"

// limited tells whether a Machine has to wait before anything is taken from it, and has it looked at again in time.
// That wait counts for no deadline of its drain.
func (c *Controller) limited(s *scope) bool {
	wait, waited := c.ThawLimiter.Take(s.Machine.UID)
	s.Elapsed.Drain = max(s.Elapsed.Drain-waited, 0)
	if wait > 0 {
		s.recheckAfter = sooner(s.recheckAfter, wait)
	}
	return wait > 0
}

// limitUpdate lets an update in place wait, begun or not.
func (c *Controller) limitUpdate(s *scope) {
	if s.Frozen || s.Update.Waiting != "" && !Begun(s.Observation) || !c.limited(s) {
		return
	}
	s.Update.Limited = limitedMessage
	if Begun(s.Observation) {
		s.drain = limitedReport()
	}
}

func limitedReport() *drain.Report {
	return &drain.Report{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonThawLimited, Message: limitedMessage}
}
