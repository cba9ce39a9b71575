// Package packs starts the hollow nodes of a podhost in packs: processes that many of them share. A node that needs a process of its own
// gets a pack of one.
package packs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/klog/v2"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

// ErrClosed is the error of a start after Close.
var ErrClosed = errors.New("the podhost is ending")

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
	closed  chan struct{}
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
	return &Launcher{options: options, spawner: process.NewSpawner(giveUpPrivileges, giveWay), closed: make(chan struct{}), alone: map[string]bool{}}
}

// Close kills all packs and returns when they have ended.
func (l *Launcher) Close() {
	l.mu.Lock()
	isFirst := !l.isClosed()
	if isFirst {
		close(l.closed)
	}
	l.mu.Unlock()
	l.processes.Wait()
	if isFirst {
		l.spawner.Close()
	}
}

func (l *Launcher) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
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

// running is one pack.
type running struct {
	image string
	// alone is that it is the pack of one node.
	alone          bool
	uid            types.UID
	directory, log string
	// output is the log. That of a pack of one is its node's, and nil here.
	output io.Closer
	// listens is closed when the pack can be reached, or could not be started, which err says then.
	listens chan struct{}
	err     error
	child   process.Instance
	// done is closed when the process has ended, how says exit.
	done chan struct{}
	exit Exit
	// nodes is how many it has, and ended that it takes no more. The Launcher's lock guards both.
	nodes int
	ended bool
	// members are the nodes that have started in it, and full that it has had as many as it takes.
	members map[*Node]bool
	full    bool
}

// Start starts a hollow node.
func (l *Launcher) Start(spec Spec) (*Node, error) {
	n := &Node{launcher: l, spec: spec, done: make(chan struct{})}
	err := n.place(l.options.Nodes <= 1 || l.isAlone(spec.Name))
	if errors.Is(err, pack.ErrAlone) {
		klog.Background().Info("Starting a hollow node in a process of its own", "node", spec.Name, "reason", err)
		err = n.place(true)
	}
	if err != nil {
		return nil, fmt.Errorf("starting a hollow node: %w", err)
	}
	go n.awaitEnd()
	return n, nil
}

// place starts the node in the first pack that takes it, if need be in a new one.
func (n *Node) place(alone bool) error {
	passed := map[*running]bool{}
	for {
		p, isNew := n.launcher.reservePlace(n, alone, passed)
		if p == nil {
			return ErrClosed
		}
		node, err := p.startNode(n.spec)
		if err == nil {
			n.launcher.changeMembers(p, n, true)
			n.finishMove(p, node)
			return nil
		}
		n.launcher.releasePlace(p, err)
		if isNew || errors.Is(err, pack.ErrAlone) {
			return err
		}
		if errors.Is(err, pack.ErrFull) {
			n.launcher.replacePack(p)
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
func (l *Launcher) reservePlace(n *Node, alone bool, passed map[*running]bool) (*running, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed() {
		return nil, false
	}
	for _, p := range l.packs {
		if !alone && !p.alone && p.image == n.spec.Image && !p.ended && !p.full && p.nodes < l.options.Nodes && !passed[p] {
			p.nodes++
			return p, false
		}
	}
	p := &running{
		image: n.spec.Image, alone: alone, uid: uuid.NewUUID(), nodes: 1, members: map[*Node]bool{},
		listens: make(chan struct{}), done: make(chan struct{}),
	}
	p.directory = filepath.Join(l.options.Directory.Path(), string(p.uid))
	l.packs = append(l.packs, p)
	l.processes.Go(func() { l.run(p, n.spec) })
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

func (l *Launcher) changeMembers(p *running, n *Node, isMember bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isMember {
		p.members[n] = true
	} else {
		delete(p.members, n)
		p.nodes--
	}
}

// run runs a pack, for this node first, until its process has ended.
func (l *Launcher) run(p *running, first Spec) {
	p.err = l.launch(p, first)
	if p.child != nil {
		go p.awaitEnd()
		if p.err == nil {
			p.err = l.awaitSocket(p)
		}
		close(p.listens)
		select {
		case <-p.done:
		case <-l.closed:
			_ = p.child.Signal(syscall.SIGKILL)
			<-p.done
		}
	} else {
		close(p.listens)
		close(p.done)
	}
	l.mu.Lock()
	p.ended = true
	l.packs = slices.DeleteFunc(l.packs, func(one *running) bool { return one == p })
	l.mu.Unlock()
	l.reportEnd(p)
	if p.output != nil {
		_ = p.output.Close() // What matters of it was read.
	}
	if err := l.options.Directory.Remove(p.uid); err != nil {
		klog.Background().Error(err, "Removing the directory of a pack that has ended failed", "directory", p.directory)
	}
}

// replacePack moves the nodes of a pack that has had all its nodes to other packs, one after the other. The pack ends with its last one.
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
			n.moveNode()
			select {
			case <-time.After(l.options.MovePause):
			case <-l.closed:
				return
			}
		}
		klog.Background().Info("Replaced a pack of hollow nodes", "nodes", len(members))
	}()
}
