package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
)

// terminal is a pseudoterminal that keeps all that is written to it.
type terminal struct {
	// file is what a program has as its standard input and output.
	file *os.File
	// keyboard takes what a user types.
	keyboard io.Writer

	mu      sync.Mutex
	written bytes.Buffer
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	g := NewWithT(t)
	t.Setenv("TERM", "xterm")
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(master.Close()).To(Succeed()) })
	fd := int(master.Fd())
	g.Expect(unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)).To(Succeed())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 160})).To(Succeed())
	file, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	g.Expect(err).NotTo(HaveOccurred())
	made := &terminal{file: file, keyboard: master}
	read := make(chan struct{})
	go func() {
		defer close(read)
		part := make([]byte, 4096)
		for {
			n, err := master.Read(part)
			made.mu.Lock()
			made.written.Write(part[:n])
			made.mu.Unlock()
			if err != nil {
				return // The file is closed.
			}
		}
	}()
	t.Cleanup(func() {
		g.Expect(file.Close()).To(Succeed())
		<-read
	})
	return made
}

// control are the commands to the terminal.
var control = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// shows is all that has been written, without commands to the terminal.
func (s *terminal) shows() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return control.ReplaceAllString(s.written.String(), "")
}

// raw is all that has been written.
func (s *terminal) raw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written.String()
}
