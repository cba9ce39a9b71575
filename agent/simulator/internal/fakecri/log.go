package fakecri

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	// followPeriod is how soon who follows a log sees what its container does not announce.
	followPeriod = time.Second
	// timestampFormat is that of a kubelet.
	timestampFormat = "2006-01-02T15:04:05.000000000Z07:00"
)

// LogOptions say what to read of a log, as those of the API do.
type LogOptions struct {
	Since      time.Time
	TailLines  *int64
	LimitBytes *int64
	Timestamps bool
	Follow     bool
}

// logLine is a line that a container has written.
type logLine struct {
	at   time.Time
	text string
}

// logReader reads the log of one container. It is made up when it is read: nothing is kept of it.
type logReader struct {
	runtime *Runtime
	id      string
	// from is the time, since the start, from which on lines of the script were not read.
	from time.Duration
	// start, signal and exit are whether those lines were read.
	start, signal, exit bool
}

// ReadLog writes the log of a container. If it is followed, that ends with the container.
func (r *Runtime) ReadLog(ctx context.Context, id string, options LogOptions, to io.Writer) error {
	reader := &logReader{runtime: r, id: id}
	left := int64(math.MaxInt64)
	if options.LimitBytes != nil {
		left = *options.LimitBytes
	}
	tail := options.TailLines
	for {
		lines, wait, ended, err := reader.readLines()
		if err != nil {
			return err
		}
		if tail != nil {
			lines = lines[max(0, int64(len(lines))-max(*tail, 0)):]
			tail = nil
		}
		if left, err = writeLines(to, lines, options, left); err != nil || left == 0 {
			return err
		}
		if !options.Follow || wait == 0 {
			return nil
		}
		timer := r.options.Clock.NewTimer(wait)
		select {
		case <-timer.C():
		case <-ended:
		case <-ctx.Done():
			timer.Stop()
			return nil // The reader has gone.
		}
		timer.Stop()
	}
}

// writeLines writes at most so many bytes, and returns how many are left.
func writeLines(to io.Writer, lines []logLine, options LogOptions, left int64) (int64, error) {
	for _, line := range lines {
		if line.at.Before(options.Since) {
			continue
		}
		text := line.text + "\n"
		if options.Timestamps {
			text = line.at.Format(timestampFormat) + " " + text
		}
		text = text[:min(int64(len(text)), left)]
		if _, err := io.WriteString(to, text); err != nil {
			return 0, fmt.Errorf("writing a log: %w", err)
		}
		if left -= int64(len(text)); left == 0 {
			return 0, nil
		}
	}
	return left, nil
}

// readLines returns the lines since it was last called, how long it is until the next one at most, 0 if there is none, and what is
// closed when the container ends. A container that is removed meanwhile has ended.
func (l *logReader) readLines() ([]logLine, time.Duration, <-chan struct{}, error) {
	r := l.runtime
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.findContainer(l.id)
	if err != nil && l.start {
		return nil, 0, nil, nil
	}
	if err != nil {
		return nil, 0, nil, err
	}
	r.endIfDue(c)
	if c.startedAt.IsZero() {
		return nil, 0, nil, nil
	}
	ran := c.runTime(r.options.Clock.Now())
	lines := l.scriptLines(c, ran)
	lines = append(lines, l.eventLines(c)...)
	slices.SortStableFunc(lines, func(a, b logLine) int { return a.at.Compare(b.at) })
	lines = lines[max(0, len(lines)-maxLogLines):]
	l.start = true
	if !c.finishedAt.IsZero() {
		return lines, 0, nil, nil
	}
	wait := followPeriod
	for _, line := range l.scriptOf(c) {
		if next, comes := line.findNext(ran); comes {
			wait = max(min(wait, next-ran), time.Millisecond)
		}
	}
	if c.ended == nil {
		c.ended = make(chan struct{})
	}
	return lines, wait, c.ended, nil
}

// scriptOf is the script of a container, or what its other annotations say.
func (l *logReader) scriptOf(c *container) logScript {
	if c.log != nil {
		return c.log
	}
	said := logScript{{text: "hollow container: nothing runs here, and this log is made up"}}
	for _, name := range []string{StartedAfterAnnotation, ReadyAfterAnnotation} {
		if after, ok := c.script[name]; ok {
			_, word, _ := strings.Cut(strings.TrimSuffix(name, "-after"), "/")
			said = append(said, scriptLine{after: after, text: word})
		}
	}
	return said
}

func (l *logReader) scriptLines(c *container, ran time.Duration) []logLine {
	var lines []logLine
	for _, line := range l.scriptOf(c) {
		for _, at := range line.listTimes(l.from, ran) {
			lines = append(lines, logLine{c.startedAt.Add(at), line.text})
		}
	}
	l.from = ran + 1
	return lines
}

// eventLines are those of what has happened to the container.
func (l *logReader) eventLines(c *container) []logLine {
	var lines []logLine
	if !c.signalledAt.IsZero() && !l.signal {
		l.signal = true
		lines = append(lines, logLine{c.signalledAt, "received SIGTERM"})
	}
	if !c.finishedAt.IsZero() && !l.exit {
		l.exit = true
		lines = append(lines, logLine{c.finishedAt, fmt.Sprintf("ended with exit code %d", c.exitCode)})
	}
	return lines
}
