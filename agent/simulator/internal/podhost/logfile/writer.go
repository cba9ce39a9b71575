// Package logfile keeps the output of containers in files of bounded size and
// reads it back. The format is that of the Container Runtime Interface, which
// the kubelet's own log reader understands.
package logfile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// maxLine is the longest line that is written in one piece, in bytes.
	maxLine = 16 << 10
	// stampFormat is RFC 3339 with all nine digits of the nanoseconds, so
	// that lines sort.
	stampFormat = "2006-01-02T15:04:05.000000000Z07:00"
	// rotatedSuffix names the one older file that is kept.
	rotatedSuffix = ".1"
)

// Writer writes one container run's output to a file. When the file reaches
// its limit it is set aside, in place of the one set aside before, so that both
// together never exceed twice the limit.
type Writer struct {
	path  string
	limit int64

	mu   sync.Mutex
	file *os.File
	size int64
}

// Create makes a new log file. The limit is in bytes.
func Create(path string, limit int64) (*Writer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the log directory: %w", err)
	}
	w := &Writer{path: path, limit: limit}
	return w, w.open()
}

func (w *Writer) open() error {
	file, err := os.OpenFile(w.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	w.file, w.size = file, 0
	return nil
}

// Close closes the file. Later output is lost.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}

// Stream returns a writer for one output stream, "stdout" or "stderr". Its
// Flush writes a last line that has no end of line.
func (w *Writer) Stream(name string) *Stream {
	return &Stream{writer: w, name: name}
}

func (w *Writer) line(stream, tag string, text []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return os.ErrClosed
	}
	record := fmt.Appendf(nil, "%s %s %s ", time.Now().UTC().Format(stampFormat), stream, tag)
	record = append(append(record, text...), '\n')
	if w.size > 0 && w.size+int64(len(record)) > w.limit {
		if err := w.rotate(); err != nil {
			return err
		}
	}
	n, err := w.file.Write(record)
	w.size += int64(n)
	return err
}

func (w *Writer) rotate() error {
	w.file.Close()
	w.file = nil
	if err := os.Rename(w.path, Rotated(w.path)); err != nil {
		return fmt.Errorf("setting the log aside: %w", err)
	}
	return w.open()
}

// Stream splits one output stream into lines.
type Stream struct {
	writer  *Writer
	name    string
	pending []byte
}

var _ io.Writer = (*Stream)(nil)

// Write takes output of any length. It must not be called concurrently.
func (s *Stream) Write(output []byte) (int, error) {
	for rest := output; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		piece, tag := rest, "P"
		if end >= 0 {
			piece, tag = rest[:end], "F"
		}
		room := maxLine - len(s.pending)
		if len(piece) > room {
			piece, tag = piece[:room], "P"
		}
		s.pending = append(s.pending, piece...)
		rest = rest[len(piece):]
		if tag == "F" {
			rest = rest[1:]
		}
		if tag == "F" || len(s.pending) == maxLine {
			if err := s.emit(tag); err != nil {
				return len(output) - len(rest), err
			}
		}
	}
	return len(output), nil
}

// Flush writes what is left without an end of line.
func (s *Stream) Flush() error {
	if len(s.pending) == 0 {
		return nil
	}
	return s.emit("F")
}

func (s *Stream) emit(tag string) error {
	err := s.writer.line(s.name, tag, s.pending)
	s.pending = s.pending[:0]
	return err
}

// Rotated is where the older part of a log is kept.
func Rotated(path string) string { return path + rotatedSuffix }
