package packs

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/process"
)

const (
	// defaultMovePause leaves a node that has moved the time to be Ready before the next one moves.
	defaultMovePause = 10 * time.Second
	// defaultKillTimeout is more than a node takes to end that is killed, on a busy machine.
	defaultKillTimeout = 30 * time.Second
	// moveGrace is how long a node may take to end that moves.
	moveGrace = 10 * time.Second
)

// packed is a node in a pack, which is to its pod what a process is.
type packed struct {
	launcher  *Launcher
	spec      process.Spec
	startedAt time.Time
	done      chan struct{}
	exit      process.Exit // valid once done is closed

	mu   sync.Mutex
	pack *running
	node *pack.Node
	// moves is closed when the node has moved. It is nil while it does not move.
	moves chan struct{}
	// ordered is that somebody else wants it to end, and killed that it is to end at once.
	ordered, killed bool
}

// followNode returns a node that has started.
func (l *Launcher) followNode(spec process.Spec, p *running, node *pack.Node) *packed {
	n := &packed{launcher: l, spec: spec, startedAt: time.Now(), done: make(chan struct{}), pack: p, node: node}
	l.changeMembers(p, n, true)
	go n.awaitEnd()
	return n
}

func (l *Launcher) changeMembers(p *running, n *packed, isMember bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isMember {
		p.members[n] = true
	} else {
		delete(p.members, n)
		p.nodes--
	}
}

// awaitEnd waits until the node has ended, wherever it moves.
func (n *packed) awaitEnd() {
	defer close(n.done)
	for {
		n.exit = n.pack.exitOf(n.node)
		n.launcher.changeMembers(n.pack, n, false)
		if !n.isMoving() {
			n.tellEnd()
			return
		}
		p, node, err := n.launcher.startPacked(n.spec)
		if err != nil {
			klog.Background().Error(err, "Moving a hollow node to another pack failed: it is started again", "node", n.spec.Name)
			n.finishMove(n.pack, n.node)
			return
		}
		n.launcher.changeMembers(p, n, true)
		n.finishMove(p, node)
	}
}

// isMoving reports whether the node is to continue in another pack. One that somebody ended meanwhile is not.
func (n *packed) isMoving() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.moves != nil && n.ordered {
		close(n.moves)
		n.moves = nil
	}
	return n.moves != nil
}

// finishMove lets the node be where it has moved to. What it was sent on the way it gets there.
func (n *packed) finishMove(p *running, node *pack.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pack, n.node = p, node
	close(n.moves)
	n.moves = nil
	if n.killed {
		node.Signal(syscall.SIGKILL)
		go n.ensureEnd(p)
	} else if n.ordered {
		node.Signal(syscall.SIGTERM)
	}
}

// moveNode lets the node end in its pack and start in another one, and returns when it has.
func (n *packed) moveNode() {
	n.mu.Lock()
	if n.ordered || n.moves != nil {
		n.mu.Unlock()
		return
	}
	moves, node := make(chan struct{}), n.node
	n.moves = moves
	n.mu.Unlock()
	node.Signal(syscall.SIGTERM)
	select {
	case <-moves:
		return
	case <-node.Done():
	case <-time.After(moveGrace):
		node.Signal(syscall.SIGKILL)
	}
	select {
	case <-moves:
	case <-n.done: // It had ended already.
	}
}

// tellEnd notes in the node's log that it has ended with its pack.
func (n *packed) tellEnd() {
	if _, err := n.node.Exit(); errors.Is(err, pack.ErrGone) {
		_, _ = fmt.Fprintf(n.spec.Stderr, "hollow-node: the process that it shares with other nodes has ended with code %d; the log of the podhost says why\n", n.exit.Code)
	}
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

// StartedAt returns when the node was started.
func (n *packed) StartedAt() time.Time { return n.startedAt }

// Done is closed when the node has ended and its log is complete.
func (n *packed) Done() <-chan struct{} { return n.done }

// Exit tells how the node ended. It must not be called before Done is closed.
func (n *packed) Exit() process.Exit {
	<-n.done
	return n.exit
}

// Signal sends a signal to the node. A pack that does not carry out a kill is killed: whoever kills waits for the end.
func (n *packed) Signal(signal syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	isFirst := !n.killed
	n.ordered = n.ordered || signal == syscall.SIGTERM || signal == syscall.SIGINT || signal == syscall.SIGKILL
	n.killed = n.killed || signal == syscall.SIGKILL
	n.node.Signal(signal)
	if n.killed && isFirst {
		go n.ensureEnd(n.pack)
	}
}

func (n *packed) ensureEnd(p *running) {
	select {
	case <-n.done:
	case <-time.After(n.launcher.options.KillTimeout):
		klog.Background().Error(nil, "Killing a pack of hollow nodes: it does not end a node that was killed", "node", n.spec.Name)
		p.process.Signal(syscall.SIGKILL)
	}
}
