// Heartbeat runs a command and says every few seconds that it is still at work, and how far it is.
//
// A cold build of Kubernetes is silent for ten minutes; its user should not have to guess whether it hangs.
// A command that ends within a few seconds gets no line at all, so a warm build stays quiet.
//
//	heartbeat -name simulator -packages './cmd/...' -- go build -v -o ../../bin/ ./cmd/...
//
// With -packages the command is taken for a "go build -v" of these patterns: the import paths that it
// prints on standard error are counted instead of shown, and so are the modules that it downloads.
// The exit code is that of the command, 2 for wrong usage and 127 for a command that cannot start.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Exit codes of heartbeat itself, as a shell would choose them.
const (
	exitUsage       = 2
	exitCannotStart = 127
	exitSignalled   = 128
)

// options is what one run needs.
type options struct {
	// name starts every line that heartbeat prints.
	name string
	// note is printed once, as soon as the command has outlived quiet.
	note string
	// packages are the patterns given to go build, separated by spaces. Empty: the output is passed on untouched.
	packages string
	// quiet is how long the command may take before anything is said.
	quiet time.Duration
	// every is the time between two lines.
	every time.Duration
	// terminal redraws one line every second instead of printing new ones.
	terminal bool
	// command is the program and its arguments.
	command []string

	stdout, stderr io.Writer
}

func main() {
	o := options{stdout: os.Stdout, stderr: os.Stderr, terminal: isTerminal(os.Stderr)}
	flag.StringVar(&o.name, "name", "build", "what the lines start with")
	flag.StringVar(&o.note, "note", "", "a sentence printed once if the command takes longer than -quiet")
	flag.StringVar(&o.packages, "packages", "", "package patterns that a go build -v is given; its import paths are counted")
	flag.DurationVar(&o.quiet, "quiet", 3*time.Second, "say nothing about a command that ends within this time")
	flag.DurationVar(&o.every, "every", 15*time.Second, "time between two lines")
	flag.Parse()
	o.command = flag.Args()
	if len(o.command) == 0 || o.every <= 0 {
		fmt.Fprintln(os.Stderr, "usage: heartbeat [flags] -- command [argument...]")
		os.Exit(exitUsage)
	}
	os.Exit(run(o))
}

// isTerminal tells a screen that a person looks at from a log file.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	term := os.Getenv("TERM")
	return term != "" && term != "dumb" && os.Getenv("CI") == ""
}

// run starts the command, reports on it until it ends and returns its exit code.
func run(o options) int {
	p := newProgress(o.name, time.Now())
	out := &screen{stdout: o.stdout, stderr: o.stderr, terminal: o.terminal}

	cmd := exec.Command(o.command[0], o.command[1:]...) //nolint:noctx // signals are forwarded instead, so that the command can tidy up
	cmd.WaitDelay = 5 * time.Second                     // a grandchild that keeps the pipe open must not hang the build
	stdout := &lineWriter{emit: func(line string) { out.pass(o.stdout, line) }}
	stderr := &lineWriter{emit: func(line string) {
		if o.packages == "" || !p.swallow(line) {
			out.pass(o.stderr, line)
		}
	}}
	cmd.Stdout, cmd.Stderr = stdout, stderr

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(o.stderr, "%s: starting %s: %v\n", o.name, o.command[0], err)
		return exitCannotStart
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()

	err := watch(o, p, out, cmd.Process, signals, done)
	stdout.flush()
	stderr.flush()
	out.clear()
	if elapsed := time.Since(p.start); elapsed > o.quiet {
		fmt.Fprintln(o.stderr, p.ending(elapsed, err))
	}
	return exitCode(err)
}

// watch prints heartbeats until the command has ended and returns what Wait returned.
func watch(o options, p *progress, out *screen, process *os.Process, signals <-chan os.Signal, done <-chan error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	every := o.every
	if o.terminal {
		every = time.Second
	}
	timer := time.NewTimer(o.quiet)
	defer timer.Stop()
	first := true
	for {
		select {
		case err := <-done:
			return err
		case s := <-signals:
			_ = process.Signal(s) // the command may have ended in between
		case <-timer.C:
			if first && o.note != "" {
				out.pass(o.stderr, o.name+": "+o.note+"\n")
			}
			if first && o.packages != "" {
				go p.count(ctx, strings.Fields(o.packages))
			}
			if !first || o.terminal {
				out.status(p.status(time.Since(p.start)))
			}
			first = false
			timer.Reset(every)
		}
	}
}

// exitCode turns the error of Wait into the code that a shell would give.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 1
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignalled + int(status.Signal())
	}
	return exit.ExitCode()
}

// screen keeps the status line and the output of the command apart.
type screen struct {
	stdout, stderr io.Writer
	terminal       bool

	mu    sync.Mutex
	drawn bool
}

// pass prints output of the command.
func (s *screen) pass(w io.Writer, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	_, _ = io.WriteString(w, text)
}

// status prints a heartbeat, on a terminal in place of the one before.
func (s *screen) status(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	if s.terminal {
		_, _ = io.WriteString(s.stderr, line)
		s.drawn = true
		return
	}
	_, _ = io.WriteString(s.stderr, line+"\n")
}

// clear removes the last heartbeat from a terminal.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
}

func (s *screen) wipe() {
	if s.drawn {
		_, _ = io.WriteString(s.stderr, "\r\x1b[K")
		s.drawn = false
	}
}
