package packs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

const (
	// readBytes bounds what is read of the log of a pack that has failed, and toldLines what is told of it.
	readBytes = 512 << 10
	toldLines = 60
	// loopPeriod is how long the end of a pack counts, and loopEnds how many of them are a loop.
	loopPeriod = 30 * time.Minute
	loopEnds   = 3
)

// reportEnd says why a pack has ended before its nodes: its own log goes with it. A node in which a panic has ended it gets a process of
// its own from now on. The end of a pack of one is that of its node.
func (l *Launcher) reportEnd(p *running) {
	if p.alone || p.exit.Code == 0 || l.isClosed() {
		return
	}
	text, err := process.ReadTail(p.log, readBytes)
	if err != nil {
		text = "its log cannot be read: " + err.Error()
	}
	text = cutFailure(text)
	message := fmt.Sprintf("A process of hollow nodes has ended with code %d, and its nodes are started again", p.exit.Code)
	if name := pack.Culprit(text); name != "" && !strings.HasPrefix(text, "SIG") {
		message += fmt.Sprintf(". It was node %s that ended it, which gets a process of its own from now on", name)
		l.mu.Lock()
		l.alone[name] = true
		l.mu.Unlock()
	} else if ends := l.countEnd(time.Now()); ends >= loopEnds {
		message += fmt.Sprintf(". This was the %d. time in %s: start the cluster with --nodes-per-pack 1, so that one node ends no other and is seen", ends, loopPeriod)
	}
	klog.Background().Error(nil, message, "log", text)
	l.options.Warn("PackEnded", message+".")
}

// failure is how Go begins to say why it ends a program.
var failure = regexp.MustCompile(`(?m)^(panic|fatal error|SIG[A-Z]+): `)

// cutFailure returns what a log says of the end of its program, or its last lines.
func cutFailure(text string) string {
	lines := strings.SplitAfter(text, "\n")
	if at := failure.FindStringIndex(text); at != nil {
		lines = strings.SplitAfter(text[at[0]:], "\n")
		return strings.Join(lines[:min(len(lines), toldLines)], "")
	}
	return strings.Join(lines[max(0, len(lines)-toldLines):], "")
}

// countEnd counts the end of a pack, and returns how many there were lately.
func (l *Launcher) countEnd(now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = append(slices.DeleteFunc(l.ends, func(at time.Time) bool { return now.Sub(at) > loopPeriod }), now)
	return len(l.ends)
}
