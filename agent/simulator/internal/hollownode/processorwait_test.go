package hollownode

import (
	"fmt"
	"os"
	"testing"
	"testing/fstest"
	"time"
)

func schedstats(waits ...time.Duration) fstest.MapFS {
	tasks := fstest.MapFS{}
	for i, wait := range waits {
		tasks[fmt.Sprintf("%d/schedstat", i+1)] = &fstest.MapFile{Data: fmt.Appendf(nil, "1000 %d 7\n", wait.Nanoseconds())}
	}
	return tasks
}

// Claim: A starved node says so; a quarter invalidate. Broken: one look is enough; the count does not start over; what cannot be read counts as starved. Also: TestWhereTheKernelCountsNothingNothingIsStarved; agent/internal/loadtest TestLateHeartbeats, TestInvalidity; agent/internal/loadtest/measurement TestLateKubelets.
func TestAProcessIsStarvedThatAlwaysWaits(t *testing.T) {
	const period = 10 * time.Second
	for name, c := range map[string]struct {
		// shares are how long its threads wait from look to look, for each second that passes.
		shares []float64
		want   bool
	}{
		"at rest":                   {[]float64{0, 0, 0, 0}, false},
		"a busy machine":            {[]float64{0.3, 0.9, 1.4, 1.4, 1.4}, false},
		"always":                    {[]float64{1.9, 1.8, 1.9, 1.6}, true},
		"not yet for long":          {[]float64{0, 1.9, 1.9, 1.9}, false},
		"a moment in between":       {[]float64{1.9, 1.9, 0.5, 1.9, 1.9}, false},
		"a thread that waited long": {[]float64{0.2, 6.4, 0.1}, false},
		"not any more":              {[]float64{1.9, 1.9, 1.9, 1.9, 0.5}, false},
	} {
		t.Run(name, func(t *testing.T) {
			now, waited := time.Now(), time.Hour
			p := &processorWait{tasks: schedstats(waited, 0)}
			got := p.isStarved(now)
			if got {
				t.Error("the first look tells nothing")
			}
			for _, share := range c.shares {
				now, waited = now.Add(period), waited+time.Duration(share*float64(period))
				p.tasks = schedstats(waited/3, waited-waited/3)
				got = p.isStarved(now)
			}
			if got != c.want {
				t.Errorf("starved is %t", got)
			}
		})
	}
}

func TestWhereTheKernelCountsNothingNothingIsStarved(t *testing.T) {
	for name, tasks := range map[string]fstest.MapFS{
		"no threads": {}, "no counts": {"1/stat": {}}, "other counts": {"1/schedstat": {Data: []byte("none\n")}},
	} {
		p := &processorWait{tasks: tasks}
		for i := range 5 {
			if p.isStarved(time.Now().Add(time.Duration(i) * time.Second)) {
				t.Error(name)
			}
		}
	}
}

func TestTheWaitOfThisProcessIsRead(t *testing.T) {
	_, missing := os.Stat("/proc/self/schedstat") // Some kernels do not count it.
	p := &processorWait{tasks: os.DirFS("/proc/self/task")}
	if waited, err := p.readWait(); (err == nil) != (missing == nil) || waited < 0 {
		t.Errorf("read %s: %v", waited, err)
	}
}
