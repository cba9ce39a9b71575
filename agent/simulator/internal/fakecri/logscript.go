package fakecri

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// LogAnnotation, on a pod, is the log of its main containers: lines of a time since the start and a text, such as "2s listening", or
// "every 10s handled a request". Lines about a signal and the end are added.
const LogAnnotation = "hollowfleet.io/log"

// Bounds of a log. Of a longer one its last lines are kept, as by rotation.
const (
	maxLogLines    = 5000
	maxScriptLines = 200
	maxLineBytes   = 1024
	minLogInterval = 100 * time.Millisecond
)

// logScript is what the annotation of a pod says; nil without one.
type logScript []scriptLine

// scriptLine is one line, which comes again and again if it has an interval.
type scriptLine struct {
	after    time.Duration
	interval time.Duration
	text     string
}

// logScriptOf reads a pod's annotations.
func logScriptOf(annotations map[string]string) (logScript, error) {
	text, ok := annotations[LogAnnotation]
	if !ok {
		return nil, nil
	}
	said := logScript{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if len(said) == maxScriptLines {
			return nil, fmt.Errorf("annotation %s: want at most %d lines", LogAnnotation, maxScriptLines)
		}
		one, ok := parseScriptLine(line)
		if !ok {
			return nil, fmt.Errorf(`annotation %s: want lines such as "2s listening on :8080" or "every 10s handled a request" of at most %d bytes, got %.80q`,
				LogAnnotation, maxLineBytes, line)
		}
		said = append(said, one)
	}
	return said, nil
}

func parseScriptLine(line string) (scriptLine, bool) {
	if len(line) > maxLineBytes {
		return scriptLine{}, false
	}
	repeated, isRepeated := strings.CutPrefix(line, "every ")
	if isRepeated {
		line = repeated
	}
	timeText, text, _ := strings.Cut(line, " ")
	after, err := time.ParseDuration(timeText)
	if err != nil || after < 0 || isRepeated && after < minLogInterval {
		return scriptLine{}, false
	}
	made := scriptLine{after: after, text: text}
	if isRepeated {
		made.interval = after
	}
	return made, true
}

// listTimes returns when the line came from one time on until another, both since the start; the last ones if there are too many.
func (l scriptLine) listTimes(from, until time.Duration) []time.Duration {
	if l.interval == 0 {
		if l.after < from || l.after > until {
			return nil
		}
		return []time.Duration{l.after}
	}
	last := until - until%l.interval
	first := max(0, from-1)
	first += l.interval - first%l.interval // The first one from then on, never at the start.
	var times []time.Duration
	for at := last; at >= first && len(times) < maxLogLines; at -= l.interval {
		times = append(times, at)
	}
	slices.Reverse(times)
	return times
}

// findNext returns when the line comes next after a time.
func (l scriptLine) findNext(after time.Duration) (time.Duration, bool) {
	if l.interval == 0 {
		return l.after, l.after > after
	}
	return after + l.interval - after%l.interval, true
}
