package hollow

import (
	"fmt"
	"time"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// maxShutdownPriorities bounds the entries of shutdownGracePeriodByPodPriority.
const maxShutdownPriorities = 64

// checkShutdown refuses grace periods that a kubelet refuses, and longer ones than a day.
func (c *kubeletConfiguration) checkShutdown() error {
	all, critical := c.ShutdownGracePeriod.Duration, c.ShutdownGracePeriodCriticalPods.Duration
	for _, p := range []struct {
		field string
		value time.Duration
	}{{"shutdownGracePeriod", all}, {"shutdownGracePeriodCriticalPods", critical}} {
		if p.value != 0 && (p.value < time.Second || p.value > longestEviction) {
			return c.refuseField(p.field, "want 0s or a duration from 1s to %s, got %s", wholeDuration(longestEviction), p.value)
		}
	}
	if critical > all {
		return c.refuseField("shutdownGracePeriodCriticalPods", "%s is more than the shutdownGracePeriod of %s, of which it is a part: lower it", critical, all)
	}
	priorities := c.ShutdownGracePeriodByPodPriority
	switch {
	case len(priorities) > 0 && all != 0:
		return c.refuseField("shutdownGracePeriodByPodPriority", "a kubelet takes it or shutdownGracePeriod: remove one of them")
	case len(priorities) > maxShutdownPriorities:
		return c.refuseField("shutdownGracePeriodByPodPriority", "want at most %d entries, got %d", maxShutdownPriorities, len(priorities))
	}
	seen := map[int32]bool{}
	for i, p := range priorities {
		field := fmt.Sprintf("shutdownGracePeriodByPodPriority[%d]", i)
		if seconds := p.ShutdownGracePeriodSeconds; seconds < 0 || seconds > int64(longestEviction.Seconds()) {
			return c.refuseField(field+".shutdownGracePeriodSeconds", "want seconds from 0 to %d, got %d", int(longestEviction.Seconds()), seconds)
		}
		if seen[p.Priority] {
			return c.refuseField(field+".priority", "%d is there twice: remove one entry", p.Priority)
		}
		seen[p.Priority] = true
	}
	return nil
}

// tellShutdown tells the hollow-node of the grace periods.
func (c *kubeletConfiguration) tellShutdown(told *hollownode.KubeletConfiguration) {
	told.ShutdownGracePeriod, told.ShutdownGracePeriodCriticalPods = c.ShutdownGracePeriod, c.ShutdownGracePeriodCriticalPods
	for _, p := range c.ShutdownGracePeriodByPodPriority {
		told.ShutdownGracePeriodByPodPriority = append(told.ShutdownGracePeriodByPodPriority,
			hollownode.PriorityShutdownGrace{Priority: p.Priority, Seconds: p.ShutdownGracePeriodSeconds})
	}
}
