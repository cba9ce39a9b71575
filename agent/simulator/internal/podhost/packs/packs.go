// Package packs starts the hollow nodes of a podhost in packs: processes that many of them share. A node that needs a process of its own
// gets a pack of one.
package packs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

// ErrClosed is the error of a start after Close.
var ErrClosed = errors.New("the podhost is ending")

const (
	// defaultMovePause leaves a node that has moved the time to be Ready before the next one moves.
	defaultMovePause = 10 * time.Second
	// defaultKillTimeout is more than a node takes to end that is killed, on a busy machine.
	defaultKillTimeout = 30 * time.Second
)

// Options are what a Launcher needs.
type Options struct {
	// Directory has a directory for each pack.
	Directory *poddir.Directory
	// Nodes is how many nodes share a process. With 1 or less each has its own.
	Nodes int
	// User is the user and group of the packs if it is not this process's own, else 0.
	User int
	// LogLimit bounds a pack's log file in bytes.
	LogLimit int64
	// MovePause is the time between two nodes that move out of a pack. The default is 10 s.
	MovePause time.Duration
	// KillTimeout is how long a pack may take to end a node that was killed, before it is killed itself. The default is 30 s.
	KillTimeout time.Duration
	// Warn tells people what happened. May be nil.
	Warn func(reason, message string)
}

// Launcher starts hollow nodes.
type Launcher struct {
	options Options
	spawner *process.Spawner
	// closed is closed by Close, which kills all packs and returns when they have ended.
	closed chan struct{}
	Close  func()
	// processes are the packs that have not ended.
	processes sync.WaitGroup

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
	l := &Launcher{options: options, spawner: process.NewSpawner(giveUpPrivileges, giveWay), closed: make(chan struct{}), alone: map[string]bool{}}
	l.Close = sync.OnceFunc(func() {
		l.mu.Lock()
		close(l.closed)
		l.mu.Unlock()
		l.processes.Wait()
		l.spawner.Close()
	})
	return l
}

func (l *Launcher) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// NodesBase is where nodes find the directory. Their user may not pass through the directories that lead to it, so it is open in their packs.
func (l *Launcher) NodesBase() string {
	if l.options.User != 0 {
		return inheritedDirectory
	}
	return l.options.Directory.Path()
}

// Spec describes one node.
type Spec struct {
	// Name is the namespace and the name of its pod.
	Name string
	// Image is the directory with the program.
	Image string
	Args  []string
	Log   io.Writer
}

// Start starts a hollow node.
func (l *Launcher) Start(spec Spec) (*Node, error) {
	n, err := l.placeNode(spec, l.options.Nodes <= 1 || l.isAlone(spec.Name))
	if errors.Is(err, pack.ErrAlone) {
		klog.Background().Info("Starting a hollow node in a process of its own", "node", spec.Name, "reason", err)
		n, err = l.placeNode(spec, true)
	}
	if err != nil {
		return nil, fmt.Errorf("starting a hollow node: %w", err)
	}
	go n.awaitEnd()
	return n, nil
}

// placeNode starts a node in the first pack that takes it, if need be in a new one.
func (l *Launcher) placeNode(spec Spec, alone bool) (*Node, error) {
	passed := map[*running]bool{}
	for {
		p, isNew := l.reservePlace(spec, alone, passed)
		if p == nil {
			return nil, ErrClosed
		}
		node, err := p.startNode(spec)
		if err == nil {
			n := &Node{launcher: l, spec: spec, pack: p, node: node, leaves: make(chan struct{}), done: make(chan struct{})}
			l.addMember(n)
			return n, nil
		}
		l.releasePlace(p, err)
		if isNew || errors.Is(err, pack.ErrAlone) {
			return nil, err
		}
		if errors.Is(err, pack.ErrFull) {
			l.replacePack(p)
		}
		passed[p] = true // It ends, has had all its nodes, or has others: the next one may take this one.
	}
}

func (p *running) startNode(spec Spec) (*pack.Node, error) {
	<-p.listens
	if p.err != nil {
		return nil, p.err
	}
	return pack.Dial(p.workingDirectory(), pack.Start{Args: spec.Args, Name: spec.Name, Alone: p.alone}, spec.Log)
}

func (l *Launcher) isAlone(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.alone[name]
}

// reservePlace takes a place for a node in a pack that was not passed, and reports whether the pack is a new one. There is none after Close.
func (l *Launcher) reservePlace(spec Spec, alone bool, passed map[*running]bool) (*running, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed() {
		return nil, false
	}
	for _, p := range l.packs {
		if !alone && !p.alone && p.image == spec.Image && !p.ended && !p.full && p.nodes < l.options.Nodes && !passed[p] {
			p.nodes++
			return p, false
		}
	}
	p := newRunning(l.options.Directory.Path(), spec.Image, alone)
	l.packs = append(l.packs, p)
	l.processes.Go(func() { l.run(p, spec) })
	return p, true
}

// releasePlace gives back the place of a node that a pack did not take. A pack that refuses its only node ends by itself, and one that does
// not answer is killed unless it has others.
func (l *Launcher) releasePlace(p *running, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.nodes--
	if p.nodes == 0 && p.err == nil && !errors.Is(why, pack.ErrRefused) && !errors.Is(why, pack.ErrAlone) {
		p.ended = true
		_ = p.child.Signal(syscall.SIGKILL)
	}
}

func (l *Launcher) addMember(n *Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.pack.members[n] = true
}

func (l *Launcher) removeMember(n *Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(n.pack.members, n)
	n.pack.nodes--
}

// replacePack asks the nodes of a pack that has had all its nodes to leave it, one after the other. The pack ends with its last one.
func (l *Launcher) replacePack(p *running) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.full {
		return
	}
	p.full = true
	members := slices.Collect(maps.Keys(p.members))
	klog.Background().Info("Replacing a pack of hollow nodes: what ended nodes leave in it has reached its bound", "nodes", len(members))
	go func() {
		for _, n := range members {
			close(n.leaves)
			select {
			case <-n.done:
			case <-l.closed:
				return
			}
			select {
			case <-time.After(l.options.MovePause):
			case <-l.closed:
				return
			}
		}
		klog.Background().Info("Replaced a pack of hollow nodes", "nodes", len(members))
	}()
}
