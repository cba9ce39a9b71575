package loadtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// saturated is the percentage from which on processors are.
const saturated = 98

// processors sums up how busy a machine was.
type processors struct {
	total, idle uint64
	at          time.Time
	// busy and all are what its processors have done, in their own unit; watched and full are how long they were looked at, and how
	// long they were saturated.
	busy, all     uint64
	watched, full time.Duration
}

// addSample takes in what the processors have done since the machine was started.
func (p *processors) addSample(total, idle uint64, at time.Time) {
	if !p.at.IsZero() && total > p.total && idle >= p.idle {
		all := total - p.total
		busy := all - min(idle-p.idle, all)
		p.all, p.busy = p.all+all, p.busy+busy
		p.watched += at.Sub(p.at)
		if float64(busy)*100 > saturated*float64(all) {
			p.full += at.Sub(p.at)
		}
	}
	p.total, p.idle, p.at = total, idle, at
}

// percentBusy is how busy the processors were on average, in which part of the time they were saturated, and how long that was.
func (p *processors) percentBusy() (busy, full float64, watched time.Duration) {
	if p.all > 0 {
		busy = float64(p.busy) / float64(p.all) * 100
	}
	if p.watched > 0 {
		full = float64(p.full) / float64(p.watched) * 100
	}
	return busy, full, p.watched
}

// machineTime is what all processors of the machine have done since it was started, and how much of that was nothing.
func machineTime() (total, idle uint64, err error) {
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	return parseMachineTime(content)
}

// parseMachineTime reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal. The guests that follow
// are counted in user already.
func parseMachineTime(content []byte) (total, idle uint64, err error) {
	line, _, _ := bytes.Cut(content, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 6 || string(fields[0]) != "cpu" {
		return 0, 0, errors.New("the first line of /proc/stat is not of all processors")
	}
	for i, field := range fields[1:min(len(fields), 9)] {
		n, err := strconv.ParseUint(string(field), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("reading /proc/stat: %w", err)
		}
		if total += n; i == 3 || i == 4 {
			idle += n
		}
	}
	return total, idle, nil
}

// agentTime is the processor time of this process.
func agentTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
