// Package packs starts the hollow nodes of a podhost in packs: many of them share a process. Everything else it starts as a
// process of its own.
package packs

import (
	"cmp"
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
	// readLines and readBytes bound what is read of the log of a pack that has failed, and toldLines what is told of it.
	readLines, readBytes = 5000, 512 << 10
	toldLines            = 60
	// goneTimeout bounds how long a pack takes to end that has closed the connection of a node.
	goneTimeout = 10 * time.Second
	// loopPeriod is how long the end of a pack counts, and loopEnds how many of them are a loop.
	loopPeriod = 30 * time.Minute
	loopEnds   = 3
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
	// MovePause is the time between two nodes that move out of a pack. The default is 10 s.
	MovePause time.Duration
	// KillTimeout is how long a pack may take to end a node that was killed, before it is killed itself. The default is 30 s.
	KillTimeout time.Duration
	// Warn tells people what happened. May be nil.
	Warn func(reason, message string)
}

// Launcher starts hollow nodes and other processes.
type Launcher struct {
	options Options

	mu    sync.Mutex
	packs []*running
	// alone are the names of the nodes in which a panic has ended a pack. Each has a process of its own from then on.
	alone map[string]bool
	// ends is when packs have ended before their nodes lately.
	ends []time.Time
}

// New returns a Launcher without packs.
func New(options Options) *Launcher {
	options.KillTimeout = cmp.Or(options.KillTimeout, defaultKillTimeout)
	options.MovePause = cmp.Or(options.MovePause, defaultMovePause)
	if options.Warn == nil {
		options.Warn = func(string, string) {}
	}
	return &Launcher{options: options, alone: map[string]bool{}}
}

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
	// members are the nodes that have started in it, and full that it has had as many as it takes.
	members map[*packed]bool
	full    bool
}

// Start starts a hollow node in a pack, or a process.
func (l *Launcher) Start(spec process.Spec) (process.Running, error) {
	if l.options.Nodes <= 1 || filepath.Base(spec.Path) != program || l.isAlone(spec.Name) {
		return l.options.Processes.Start(spec)
	}
	p, node, err := l.startPacked(spec)
	if errors.Is(err, pack.ErrAlone) {
		klog.Background().Info("Starting a hollow node in a process of its own", "node", spec.Name, "reason", err)
		return l.options.Processes.Start(spec)
	}
	if err != nil {
		return nil, fmt.Errorf("starting a hollow node in a pack: %w", err)
	}
	return l.followNode(spec, p, node), nil
}

// startPacked starts a node in the first pack that takes it, if need be in a new one.
func (l *Launcher) startPacked(spec process.Spec) (*running, *pack.Node, error) {
	passed := map[*running]bool{}
	for {
		p, isNew := l.reservePlace(kind{spec.Path, spec.Identity}, passed)
		node, err := p.startNode(spec)
		if err == nil {
			return p, node, nil
		}
		l.releasePlace(p)
		if isNew || errors.Is(err, pack.ErrAlone) {
			return nil, nil, err
		}
		if errors.Is(err, pack.ErrFull) {
			l.replacePack(p)
		}
		passed[p] = true // It ends, has had all its nodes, or has others: the next one may take this one.
	}
}

func (l *Launcher) isAlone(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.alone[name]
}

// reservePlace takes a place in a pack that was not passed, and reports whether the pack is a new one.
func (l *Launcher) reservePlace(wanted kind, passed map[*running]bool) (*running, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.packs {
		if p.kind == wanted && !p.ended && !p.full && p.nodes < l.options.Nodes && !passed[p] {
			p.nodes++
			return p, false
		}
	}
	p := &running{kind: wanted, uid: uuid.NewUUID(), listens: make(chan struct{}), nodes: 1, members: map[*packed]bool{}}
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
	l.reportEnd(p)
	if err := poddir.Remove(l.options.Directory, p.uid); err != nil {
		klog.Background().Error(err, "Removing the directory of a pack that has ended failed", "directory", p.directory)
	}
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
		Env:    append(slices.Clone(l.options.Env), "HOME=.", "TMPDIR=.", "GODEBUG="+pack.TraceLabels),
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
	return pack.Dial(p.directory, pack.Start{Args: spec.Argv[1:], Name: spec.Name}, spec.Stderr)
}
