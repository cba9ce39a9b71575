package process

import (
	"fmt"
	"io"
	"os"
	"time"
)

// stream carries one output stream of a process to a writer.
type stream struct {
	readEnd  *os.File
	writeEnd *os.File
	writer   io.Writer
	finished chan struct{}
}

func newStream(writer io.Writer) (*stream, error) {
	if writer == nil {
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			return nil, fmt.Errorf("discarding output: %w", err)
		}
		return &stream{writeEnd: null}, nil
	}
	readEnd, writeEnd, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making an output pipe: %w", err)
	}
	return &stream{readEnd: readEnd, writeEnd: writeEnd, writer: writer, finished: make(chan struct{})}, nil
}

// abandon closes the stream of a process that was not started.
func (s *stream) abandon() {
	s.writeEnd.Close()
	if s.readEnd != nil {
		s.readEnd.Close()
	}
}

// follow starts to copy. This side's copy of the write end is closed, so that
// the stream ends when the process's copies are closed.
func (s *stream) follow() {
	s.writeEnd.Close()
	if s.readEnd == nil {
		return
	}
	go func() {
		defer close(s.finished)
		defer s.readEnd.Close()
		buffer := make([]byte, 4096)
		for {
			n, err := s.readEnd.Read(buffer)
			if n > 0 {
				// A writer that fails must not block the process: its output
				// is read on and lost.
				_, _ = s.writer.Write(buffer[:n])
			}
			if err != nil {
				return
			}
		}
	}()
}

// drain waits until everything that was written has been copied.
func (s *stream) drain(timeout time.Duration) {
	if s.readEnd == nil {
		return
	}
	// An error means that the copying has finished and closed the file.
	_ = s.readEnd.SetReadDeadline(time.Now().Add(timeout))
	<-s.finished
}
