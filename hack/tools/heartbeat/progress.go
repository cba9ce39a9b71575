package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// importPath matches a line that is nothing but an import path, as go build -v prints them.
var importPath = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+$`)

// progress counts what a go build says about itself.
type progress struct {
	name  string
	start time.Time

	mu         sync.Mutex
	downloaded int
	compiled   int
	// total is the number of packages in the build, cached ones included; 0 while unknown.
	total int
}

func newProgress(name string, start time.Time) *progress {
	return &progress{name: name, start: start}
}

// swallow counts a line of go build -v and reports whether it held nothing that a reader must see.
func (p *progress) swallow(line string) bool {
	line = strings.TrimRight(line, "\r\n")
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case strings.HasPrefix(line, "go: downloading "):
		p.downloaded++
	case importPath.MatchString(line):
		p.compiled++
	default:
		return false
	}
	return true
}

// count asks go for the number of packages in the build. A failure leaves the total unknown: the build
// itself reports what is wrong.
func (p *progress) count(ctx context.Context, patterns []string) {
	out, err := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "--"}, patterns...)...).Output()
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = bytes.Count(out, []byte("\n"))
}

// status is the heartbeat after elapsed.
func (p *progress) status(elapsed time.Duration) string {
	parts := append([]string{elapsed.Round(time.Second).String()}, p.counts()...)
	return p.name + ": " + strings.Join(parts, ", ")
}

// ending is the last line, for a command that ended with err.
func (p *progress) ending(elapsed time.Duration, err error) string {
	how := "done in"
	if err != nil {
		how = "failed after"
	}
	parts := append([]string{fmt.Sprintf("%s %s", how, elapsed.Round(time.Second))}, p.counts()...)
	return p.name + ": " + strings.Join(parts, ", ")
}

// counts lists what was counted so far and leaves out what is zero.
func (p *progress) counts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var parts []string
	if p.downloaded > 0 {
		parts = append(parts, fmt.Sprintf("%d modules downloaded", p.downloaded))
	}
	switch {
	case p.compiled > 0 && p.total > 0:
		// Packages found in the cache are never printed, so the total is an upper limit.
		parts = append(parts, fmt.Sprintf("%d of at most %d packages compiled", p.compiled, p.total))
	case p.compiled > 0:
		parts = append(parts, fmt.Sprintf("%d packages compiled", p.compiled))
	}
	return parts
}

// lineWriter hands on whole lines, so that a heartbeat never lands in the middle of one.
type lineWriter struct {
	emit func(line string)

	mu      sync.Mutex
	pending []byte
}

// Write implements io.Writer; it never fails.
func (w *lineWriter) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = append(w.pending, data...)
	for {
		end := bytes.IndexByte(w.pending, '\n')
		if end < 0 {
			return len(data), nil
		}
		w.emit(string(w.pending[:end+1]))
		w.pending = w.pending[end+1:]
	}
}

// flush hands on a last line that has no newline.
func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) > 0 {
		w.emit(string(w.pending))
		w.pending = nil
	}
}
