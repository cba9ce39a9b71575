// Package packs starts the hollow nodes of a podhost in packs: many of them share a process. Everything else it starts as a
// process of its own.
package packs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/klog/v2"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/footprint"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/logfile"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/process"
)

const (
	program = "hollow-node"
	logName = "pack.log"
	// startTimeout bounds how long a new pack takes until it listens, on a busy machine, and startPause is the time between two
	// attempts to reach it.
	startTimeout = time.Minute
	startPause   = 20 * time.Millisecond
	// toldLines and toldBytes bound what is told of the log of a pack that has failed.
	toldLines, toldBytes = 60, 8 << 10
	// goneTimeout bounds how long a pack takes to end that has closed the connection of a node.
	goneTimeout = 10 * time.Second
)

// Options are what a Launcher needs.
type Options struct {
	Processes *process.Launcher
	// Directory has a directory for each pack. It is marked as a podhost's.
	Directory string
	// Nodes is how many nodes share a process. With 1 or less each has its own.
	Nodes int
	// Env is the environment of packs.
	Env []string
	// LogLimit bounds a pack's log file in bytes.
	LogLimit int64
}

// Launcher starts hollow nodes and other processes.
type Launcher struct {
	options Options

	mu    sync.Mutex
	packs []*running
}

// New returns a Launcher without packs.
func New(options Options) *Launcher { return &Launcher{options: options} }

// kind is what all nodes of a pack have in common.
type kind struct {
	program  string
	identity process.Identity
}

// running is one pack.
type running struct {
	kind
	uid       types.UID
	directory string
	// listens is closed when the pack can be reached, or could not be started, which err says then.
	listens chan struct{}
	process *process.Process
	err     error
	// nodes is how many it has, and ended that it takes no more. The Launcher's lock guards both.
	nodes int
	ended bool
}

// Start starts a hollow node in a pack, or a process.
func (l *Launcher) Start(spec process.Spec) (process.Running, error) {
	if l.options.Nodes <= 1 || filepath.Base(spec.Path) != program {
		return l.options.Processes.Start(spec)
	}
	passed := map[*running]bool{}
	for {
		p, isNew := l.reservePlace(kind{spec.Path, spec.Identity}, passed)
		node, err := p.startNode(spec)
		if err == nil {
			return l.follow(p, node), nil
		}
		l.releasePlace(p)
		if isNew {
			return nil, fmt.Errorf("starting a hollow node in a pack: %w", err)
		}
		passed[p] = true // It ends, has had all its nodes, or has others: the next one may take this one.
	}
}

// reservePlace takes a place in a pack that was not passed, and reports whether the pack is a new one.
func (l *Launcher) reservePlace(wanted kind, passed map[*running]bool) (*running, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.packs {
		if p.kind == wanted && !p.ended && p.nodes < l.options.Nodes && !passed[p] {
			p.nodes++
			return p, false
		}
	}
	p := &running{kind: wanted, uid: uuid.NewUUID(), listens: make(chan struct{}), nodes: 1}
	p.directory = filepath.Join(l.options.Directory, string(p.uid))
	l.packs = append(l.packs, p)
	go l.run(p)
	return p, true
}

func (l *Launcher) releasePlace(p *running) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.nodes--
}

// run runs a pack until its process has ended.
func (l *Launcher) run(p *running) {
	log, err := l.launch(p)
	p.err = err
	close(p.listens)
	if p.process != nil {
		<-p.process.Done()
	}
	l.mu.Lock()
	p.ended = true
	l.packs = slices.DeleteFunc(l.packs, func(one *running) bool { return one == p })
	l.mu.Unlock()
	if log != nil {
		_ = log.Close() // What matters of it was read, or will be.
	}
	p.reportEnd()
	if err := poddir.Remove(l.options.Directory, p.uid); err != nil {
		klog.Background().Error(err, "Removing the directory of a pack that has ended failed", "directory", p.directory)
	}
}

// reportEnd says why a pack has ended before its nodes: its own log goes with it.
func (p *running) reportEnd() {
	if p.process == nil || p.process.Exit().Code == 0 {
		return
	}
	text, err := logfile.Tail(filepath.Join(p.directory, logName), toldLines, toldBytes)
	if err != nil {
		text = "its log cannot be read: " + err.Error()
	}
	klog.Background().Error(nil, "A pack of hollow nodes has ended, and its nodes are started again", "exitCode", p.process.Exit().Code, "log", text)
}

// launch starts a pack, and returns when it listens.
func (l *Launcher) launch(p *running) (*logfile.Writer, error) {
	if err := os.Mkdir(p.directory, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of a pack: %w", err)
	}
	if p.identity.SwitchUser {
		if err := os.Chown(p.directory, p.identity.UID, p.identity.GID); err != nil {
			return nil, fmt.Errorf("giving a pack its directory: %w", err)
		}
	}
	log, err := logfile.Create(filepath.Join(p.directory, logName), l.options.LogLimit)
	if err != nil {
		return nil, err
	}
	started, err := l.options.Processes.Start(process.Spec{
		Path: p.program, Argv: []string{program, footprint.PackCommand}, Dir: p.directory, Identity: p.identity,
		Env:    append(slices.Clone(l.options.Env), "HOME=.", "TMPDIR=."),
		Stdout: log.Stream("stdout"), Stderr: log.Stream("stderr"),
	})
	if err != nil {
		return log, err
	}
	p.process = started
	deadline := time.After(startTimeout)
	for {
		err := pack.Reach(p.directory)
		if err == nil {
			return log, nil
		}
		select {
		case <-started.Done():
			return log, fmt.Errorf("a pack ended with code %d before it took a node", started.Exit().Code)
		case <-deadline:
			started.Signal(syscall.SIGKILL)
			return log, fmt.Errorf("a pack does not listen after %s: %w", startTimeout, err)
		case <-time.After(startPause):
		}
	}
}

func (p *running) startNode(spec process.Spec) (*pack.Node, error) {
	<-p.listens
	if p.err != nil {
		return nil, p.err
	}
	return pack.Dial(p.directory, pack.Start{Args: spec.Argv[1:]}, spec.Stderr)
}

// follow returns the node as what a process is to its pod.
func (l *Launcher) follow(p *running, node *pack.Node) *packed {
	n := &packed{Node: node, startedAt: time.Now(), done: make(chan struct{})}
	go func() {
		defer close(n.done)
		n.exit = p.exitOf(node)
		l.releasePlace(p)
	}()
	return n
}

// exitOf waits for the end of a node. One that ended with its pack has the pack's exit code.
func (p *running) exitOf(node *pack.Node) process.Exit {
	code, err := node.Exit()
	if errors.Is(err, pack.ErrGone) {
		select {
		case <-p.process.Done():
			return p.process.Exit()
		case <-time.After(goneTimeout):
		}
	}
	exit := process.Exit{Code: code, At: time.Now()}
	if code == pack.ExitKilled {
		exit.Signal = syscall.SIGKILL
	}
	return exit
}

// packed is a node in a pack.
type packed struct {
	*pack.Node
	startedAt time.Time
	done      chan struct{}
	exit      process.Exit // valid once done is closed
}

// StartedAt returns when the node was started.
func (p *packed) StartedAt() time.Time { return p.startedAt }

// Done is closed when the node has ended and its log is complete.
func (p *packed) Done() <-chan struct{} { return p.done }

// Exit tells how the node ended. It must not be called before Done is closed.
func (p *packed) Exit() process.Exit {
	<-p.done
	return p.exit
}
