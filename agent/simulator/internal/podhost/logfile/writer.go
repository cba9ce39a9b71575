// Package logfile keeps the logs of nodes in files of bounded size and reads them back. The format is that of the Container Runtime
// Interface, which the kubelet's own log reader understands.
package logfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

const (
	// stampFormat is RFC 3339 with all nine digits of the nanoseconds, so that lines sort.
	stampFormat = "2006-01-02T15:04:05.000000000Z07:00"
	// whole and part tell whether a line ends with what is written.
	whole, part = "F", "P"
)

// Writer writes one run's log to a file of bounded size, of which one older part is kept.
type Writer struct{ file *process.LogFile }

// Create makes a new log file. The limit is in bytes.
func Create(path string, limit int64) (*Writer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the log directory: %w", err)
	}
	file, err := process.OpenLog(path, limit)
	return &Writer{file}, err
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }

// Write takes output of any length. It never fails: if the disk is full the text is lost, which is no reason to end a node.
func (w *Writer) Write(output []byte) (int, error) {
	for line := range bytes.Lines(output) {
		text, isWhole := bytes.CutSuffix(line, []byte("\n"))
		tag := part
		if isWhole {
			tag = whole
		}
		fmt.Fprintf(w.file, "%s stderr %s %s\n", time.Now().UTC().Format(stampFormat), tag, text)
	}
	return len(output), nil
}

// Rotated is where the older part of a log is kept.
func Rotated(path string) string { return path + ".1" }

// Remove removes a log with its older part, as far as they are there.
func Remove(path string) {
	_ = os.Remove(path)
	_ = os.Remove(Rotated(path))
}
