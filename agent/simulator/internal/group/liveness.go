package group

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

const (
	// MaxUnanswered is how many checks in a row the process may leave unanswered: 3 minutes with the usual time between two.
	MaxUnanswered = 36

	checkEvery = 5 * time.Second
	// lateChecks is how many times that time makes a check that does not count: this process was starved as well.
	lateChecks = 2
)

// liveness has a shared process killed if it answers nothing at all, whatever is wrong with its clusters. A starved process
// answers late, but it answers: no question is given up while the process runs.
type liveness struct {
	process *sharedProcess
	every   time.Duration

	mutex sync.Mutex
	// pid is the process whose unanswered checks are counted.
	pid, unanswered int
}

func newLiveness(p *sharedProcess, every time.Duration) *liveness {
	return &liveness{process: p, every: every}
}

func (l *liveness) countUnanswered() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.unanswered
}

// watchProcess checks the process until the context ends.
func (l *liveness) watchProcess(ctx context.Context) {
	ticker := time.NewTicker(l.every)
	defer ticker.Stop()
	answers := make(chan error, 1)
	last, asking, silent := time.Now(), false, false
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-answers:
			if asking = false; err == nil {
				silent = false
				l.setUnanswered(0)
			}
		case <-ticker.C:
			now := time.Now()
			late := now.Sub(last) > lateChecks*l.every
			if last = now; silent && !late {
				l.countCheck(ctx)
			}
			if silent = true; !asking {
				asking = true
				go func() { answers <- checkHost(ctx, l.process.client) }()
			}
		}
	}
}

// countCheck counts a check without an answer, and kills the process after the last one.
func (l *liveness) countCheck(ctx context.Context) {
	status := l.process.unit.Status()
	if status.State != process.StateStarting && status.State != process.StateRunning {
		return
	}
	if status.PID != l.pid {
		l.pid = status.PID
		l.setUnanswered(0)
	}
	unanswered := l.countUnanswered() + 1
	l.setUnanswered(unanswered)
	if unanswered%MaxUnanswered != 0 {
		return
	}
	problem := fmt.Sprintf("%s, %d, has answered none of %d checks in a row, and is killed", l.process.title, status.PID, unanswered)
	l.process.group.printStep("%s", problem)
	fmt.Fprintln(l.process.log, problem)
	if err := l.process.unit.Kill(ctx); err != nil {
		l.process.group.printStep("%v", err)
	}
}

func (l *liveness) setUnanswered(unanswered int) {
	l.mutex.Lock()
	changed := l.unanswered != unanswered
	l.unanswered = unanswered
	l.mutex.Unlock()
	if changed {
		l.process.group.noteChange()
	}
}
