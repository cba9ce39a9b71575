package idle

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// collectPeriod is the time that there should be between two collections at rest.
	collectPeriod = time.Minute
	// busyPeriod is the time between two collections below which a process is busy, and busyPercent by which share its heap may grow then:
	// with 30, a third of the processor time is the collector's while nodes join.
	busyPeriod  = 5 * time.Second
	busyPercent = 100
	// percentStep is the smallest change, since each stops the process for a moment.
	percentStep = 10
)

// Growth is by which share a heap grows at rest before it is collected, in percent.
type Growth struct{ Least, Most int }

// The shares of processes of several kinds.
var (
	// OfGroup is for control planes that share a process. With 30, half of the processor time of clusters with nodes is the collector's.
	OfGroup = Growth{Least: 25, Most: 50}
	// OfComponent is for a component of one control plane.
	OfComponent = Growth{Least: 30, Most: 30}
	// OfPodhost is for a podhost, of which a cluster has one: it allocates next to nothing at rest.
	OfPodhost = Growth{Least: 10, Most: 30}
	// OfPack is for a pack of nodes.
	OfPack = Growth{Least: 30, Most: 30}
)

// FollowAllocation lets the heap grow less between collections while little is allocated, so that a process at rest is smaller, and more
// while it is busy. It decides at each collection, of which Go makes one every two minutes without any other reason, and returns at once.
func FollowAllocation(atRest Growth) {
	debug.SetGCPercent(busyPercent)
	f := &allocation{atRest: atRest, percent: busyPercent, last: time.Now()}
	f.allocated, _ = readHeap()
	runtime.SetFinalizer(&sentinel{f}, (*sentinel).followCollection)
}

// sentinel is found to be garbage by every collection.
type sentinel struct{ followed *allocation }

// followCollection is called after a collection.
func (s *sentinel) followCollection() {
	s.followed.choosePercent(time.Now())
	runtime.SetFinalizer(s, (*sentinel).followCollection)
}

// allocation is what a process has allocated until its last collection.
type allocation struct {
	atRest    Growth
	percent   int
	allocated uint64
	last      time.Time
}

func (a *allocation) choosePercent(now time.Time) {
	allocated, live := readHeap()
	wanted := a.atRest.choosePercent(float64(allocated-a.allocated)/now.Sub(a.last).Seconds(), float64(live))
	a.allocated, a.last = allocated, now
	if max(wanted-a.percent, a.percent-wanted) >= percentStep {
		a.percent = wanted
		debug.SetGCPercent(wanted)
	}
}

// readHeap returns the bytes that were ever allocated, and those in use at the last collection.
func readHeap() (allocated, live uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64()
}

// choosePercent returns by which share a heap with so many bytes in use may grow, by the bytes that are allocated in a second.
func (g Growth) choosePercent(allocated, live float64) int {
	if live == 0 {
		return busyPercent
	}
	if busy := allocated * busyPeriod.Seconds() * 100 / live; busy > float64(g.Most) {
		return int(min(busy, busyPercent))
	}
	return int(max(float64(g.Least), min(allocated*collectPeriod.Seconds()*100/live, float64(g.Most))))
}
