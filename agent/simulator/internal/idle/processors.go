// Package idle lets a process that holds many nodes or control planes cost less while it has little to do.
package idle

import (
	"runtime"
	"syscall"
	"time"
)

const (
	// lookPeriod is the time between two looks at how busy the process is.
	lookPeriod = time.Second
	// busyShare of one processor lets it use more, and quietShare, at quietLooks looks in a row, only one: with more of them each
	// wake-up of an idle process looks for work that others could do, which is an eighth of what it costs.
	busyShare  = 0.7
	quietShare = 0.3
	quietLooks = 10
)

// FollowLoad lets the process use more than one processor, up to as many as now, only while it is busy. It does not return.
func FollowLoad() {
	most := runtime.GOMAXPROCS(0)
	load := load{processors: most, used: processorTime()}
	for last := time.Now(); ; {
		<-time.After(lookPeriod)
		now, before := time.Now(), load.processors
		load.chooseProcessors(processorTime(), now.Sub(last), most)
		last = now
		if load.processors != before {
			runtime.GOMAXPROCS(load.processors)
		}
	}
}

// load is how busy a process is.
type load struct {
	processors int
	used       time.Duration
	// quiet is at how many looks in a row it had work for one processor at most.
	quiet int
}

// chooseProcessors decides how many processors are used from now on, by the processor time that was used until now and the time since the last look.
func (l *load) chooseProcessors(used, passed time.Duration, most int) {
	share := (used - l.used).Seconds() / passed.Seconds()
	l.used = used
	l.quiet++
	if share > quietShare {
		l.quiet = 0
	}
	switch {
	case share > busyShare:
		l.processors = most
	case l.quiet >= quietLooks:
		l.processors = 1
	}
}

// processorTime is what the process has used, or 0 if the kernel does not say.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
