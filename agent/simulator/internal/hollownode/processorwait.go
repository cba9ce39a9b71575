package hollownode

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"
)

const (
	// starvedShare is how long the threads of a hollow-node wait for a processor, per time that passes, when it cannot do its work: always,
	// and half the time a second one. Measured with 200 hollow nodes and 1,000 pods that start on two processors which are 95 % busy:
	// 0.05 to 0.4 for the median of the nodes, and up to 1.9 for one of ten, those with most pods. In a cgroup with a fortieth of a processor
	// for three nodes, for the one whose pods took minutes: 1.8 to 2.
	starvedShare = 1.5
	// starvedLooks is at how many looks in a row that has to be so: a kubelet looks every ten seconds, and may be starved for a moment.
	starvedLooks = 4
)

// processorWait reports whether the process waits for processors all the time: because others use them, or because its cgroup has no
// more of them.
type processorWait struct {
	// tasks are the directories of the process's threads, /proc/self/task.
	tasks  fs.FS
	at     time.Time
	waited time.Duration
	// looks is at how many looks in a row it waited.
	looks int
}

// isStarved looks once. Where the kernel does not count how long threads wait, nothing is known, and nothing is starved.
func (p *processorWait) isStarved(now time.Time) bool {
	waited, err := p.readWait()
	if err != nil {
		return false
	}
	passed, more := now.Sub(p.at), waited-p.waited
	first := p.at.IsZero()
	p.at, p.waited = now, waited
	// Threads that have ended are not counted any more, so that the sum may become less.
	if first || passed <= 0 || more.Seconds() < starvedShare*passed.Seconds() {
		p.looks = 0
		return false
	}
	p.looks++
	return p.looks >= starvedLooks
}

// readWait is how long all threads have waited for a processor when they could have run. The kernel's documentation of schedstats has
// the format: nanoseconds on a processor, nanoseconds of waiting, number of turns.
func (p *processorWait) readWait() (time.Duration, error) {
	threads, err := fs.ReadDir(p.tasks, ".")
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	counted := 0
	for _, thread := range threads {
		content, err := fs.ReadFile(p.tasks, path.Join(thread.Name(), "schedstat"))
		if err != nil {
			continue // It has ended meanwhile.
		}
		counted++
		var ran, waited, turns int64
		if _, err := fmt.Sscan(string(content), &ran, &waited, &turns); err != nil {
			return 0, fmt.Errorf("reading how long thread %s waited: %w", thread.Name(), err)
		}
		sum += time.Duration(waited)
	}
	if counted == 0 {
		return 0, errors.New("the kernel does not count how long threads wait")
	}
	return sum, nil
}
