// Package testlog keeps in memory what a test's processes and loops write.
package testlog

import (
	"bytes"
	"sync"
)

// Buffer is a log that may be read while it is written. The zero value is empty.
type Buffer struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(text []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.Write(text)
}

// String is everything that was written.
func (b *Buffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.String()
}
