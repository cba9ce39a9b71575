package idle

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// measurePeriod is the time between two looks at how much is allocated.
	measurePeriod = 10 * time.Second
	// collectPeriod is the time that there should be between two collections.
	collectPeriod = time.Minute
	// leastPercent and mostPercent bound by which share the heap grows before it is collected: with less, half of the processor time of
	// busy clusters would be the collector's.
	leastPercent, mostPercent = 25, 75
	// percentStep is the smallest change, since each stops the process for a moment.
	percentStep = 10
)

// FollowAllocation lets the heap grow less between collections while little is allocated, so that a process at rest is smaller. It does not
// return.
func FollowAllocation() {
	debug.SetGCPercent(mostPercent)
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	percent, allocated := mostPercent, samples[0].Value.Uint64()
	for last := time.Now(); ; {
		<-time.After(measurePeriod)
		metrics.Read(samples)
		now, total := time.Now(), samples[0].Value.Uint64()
		wanted := choosePercent(float64(total-allocated)/now.Sub(last).Seconds(), float64(samples[1].Value.Uint64()))
		last, allocated = now, total
		if max(wanted-percent, percent-wanted) >= percentStep {
			percent = wanted
			debug.SetGCPercent(percent)
		}
	}
}

// choosePercent returns by which share a heap with so many bytes in use may grow, by the bytes that are allocated in a second.
func choosePercent(allocated, live float64) int {
	grown := allocated * collectPeriod.Seconds()
	if grown*100 >= live*mostPercent {
		return mostPercent
	}
	return max(leastPercent, int(grown*100/live))
}
