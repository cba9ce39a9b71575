package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// LogFile is a component's log: one file and one older generation of it, which
// together never grow beyond twice the limit.
type LogFile struct {
	path  string
	limit int64

	mutex sync.Mutex
	file  *os.File
	size  int64
}

// OpenLog starts a new log. A log of an earlier start becomes the older
// generation, with ".1" at the end of its name.
func OpenLog(path string, limit int64) (*LogFile, error) {
	log := &LogFile{path: path, limit: limit}
	return log, log.rotateFile()
}

// Path is the file's name.
func (l *LogFile) Path() string { return l.path }

// Write appends to the log. It never fails: if the disk is full the text is
// lost, because an error would close the component's output and thereby end it.
func (l *LogFile) Write(content []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.size > 0 && l.size+int64(len(content)) > l.limit && l.rotateFile() != nil {
		return len(content), nil
	}
	written, _ := l.file.Write(content)
	l.size += int64(written)
	return len(content), nil
}

func (l *LogFile) rotateFile() error {
	if err := os.Rename(l.path, l.path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("setting aside log %s: %w", l.path, err)
	}
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening log: %w", err)
	}
	if l.file != nil {
		l.file.Close()
	}
	l.file, l.size = file, 0
	return nil
}

// Close closes the log.
func (l *LogFile) Close() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.file.Close()
}

// tailBytes bounds how much of a log Tail reads.
const tailBytes = 8 << 10

// Tail returns the last lines of the log for an error message.
func (l *LogFile) Tail(lines int) string {
	text, _ := ReadTail(l.path, tailBytes)
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// ReadTail returns the end of a text file, so many bytes at most.
func ReadTail(path string, limit int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-limit), limit))
	return strings.ToValidUTF8(string(text), ""), err
}
