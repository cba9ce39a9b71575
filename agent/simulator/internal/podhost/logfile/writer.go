// Package logfile keeps the logs of nodes in files of bounded size and reads them back. The format is that of the Container Runtime
// Interface, which the kubelet's own log reader understands.
package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

const (
	// maxLine is the longest line that is written in one piece, in bytes.
	maxLine = 16 << 10
	// stampFormat is RFC 3339 with all nine digits of the nanoseconds, so that lines sort.
	stampFormat = "2006-01-02T15:04:05.000000000Z07:00"
	// rotatedSuffix names the one older file that is kept.
	rotatedSuffix = ".1"
)

// Writer writes one run's log to a file of bounded size, of which one older part is kept.
type Writer struct {
	mu      sync.Mutex
	file    *process.LogFile // nil once it is closed
	pending []byte
}

// Create makes a new log file. The limit is in bytes.
func Create(path string, limit int64) (*Writer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the log directory: %w", err)
	}
	file, err := process.OpenLog(path, limit)
	return &Writer{file: file}, err
}

// Close writes a last line that has no end of line, and closes the file. Later output is lost.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) > 0 {
		w.writePending("F")
	}
	file := w.file
	w.file = nil
	return file.Close()
}

// Write takes output of any length. It never fails: if the disk is full the text is lost, which is no reason to end a node.
func (w *Writer) Write(output []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for rest := output; len(rest) > 0; {
		piece, after, isWhole := bytes.Cut(rest, []byte("\n"))
		tag := map[bool]string{true: "F", false: "P"}[isWhole]
		if room := maxLine - len(w.pending); len(piece) > room {
			piece, after, tag = piece[:room], rest[room:], "P"
		}
		w.pending = append(w.pending, piece...)
		rest = after
		if tag == "F" || len(w.pending) == maxLine {
			w.writePending(tag)
		}
	}
	return len(output), nil
}

// writePending writes the line that was started. The caller holds the lock.
func (w *Writer) writePending(tag string) {
	if w.file != nil {
		fmt.Fprintf(w.file, "%s stderr %s %s\n", time.Now().UTC().Format(stampFormat), tag, w.pending)
	}
	w.pending = w.pending[:0]
}

// Rotated is where the older part of a log is kept.
func Rotated(path string) string { return path + rotatedSuffix }

// Remove removes a log with its older part.
func Remove(path string) {
	for _, file := range []string{path, Rotated(path)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
}
