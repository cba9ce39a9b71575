package packs

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
)

const (
	// defaultMovePause leaves a node that has moved the time to be Ready before the next one moves.
	defaultMovePause = 10 * time.Second
	// defaultKillTimeout is more than a node takes to end that is killed, on a busy machine.
	defaultKillTimeout = 30 * time.Second
	// moveGrace is how long a node may take to end that moves.
	moveGrace = 10 * time.Second
	// goneTimeout bounds how long a pack takes to end that has closed the connection of a node.
	goneTimeout = 10 * time.Second
)

// Exit tells how a node or a pack ended.
type Exit struct {
	// Code is the exit code, or 128 plus the signal's number.
	Code int
	// Signal is zero unless a signal ended it.
	Signal syscall.Signal
	// At is when it ended.
	At time.Time
}

// Node is a running hollow node.
type Node struct {
	launcher *Launcher
	spec     Spec
	done     chan struct{}
	exit     Exit // valid once done is closed

	mu   sync.Mutex
	pack *running
	node *pack.Node
	// moves is closed when the node has moved. It is nil while it does not move.
	moves chan struct{}
	// ordered is that somebody else wants it to end, and killed that it is to end at once.
	ordered, killed bool
}

// Done is closed when the node has ended and its log is complete.
func (n *Node) Done() <-chan struct{} { return n.done }

// Exit tells how the node ended. It must not be called before Done is closed.
func (n *Node) Exit() Exit {
	<-n.done
	return n.exit
}

// Signal sends a signal to the node: SIGKILL kills it, SIGTERM ends it. A pack that does not carry out a kill is killed: whoever kills
// waits for the end.
func (n *Node) Signal(signal syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	isFirst := !n.killed
	n.ordered = n.ordered || signal == syscall.SIGTERM || signal == syscall.SIGKILL
	n.killed = n.killed || signal == syscall.SIGKILL
	n.node.Signal(signal)
	if n.killed && isFirst {
		n.ensureEnd()
	}
}

// ensureEnd ends the pack of a node that was killed if it does not end it. That of this node alone ends at once. The caller holds the lock.
func (n *Node) ensureEnd() {
	p := n.pack
	if p.alone {
		_ = p.child.Signal(syscall.SIGKILL)
		return
	}
	go func() {
		select {
		case <-n.done:
		case <-time.After(n.launcher.options.KillTimeout):
			klog.Background().Error(nil, "Killing a pack of hollow nodes: it does not end a node that was killed", "node", n.spec.Name)
			_ = p.child.Signal(syscall.SIGKILL)
		}
	}()
}

// awaitEnd waits until the node has ended, wherever it moves.
func (n *Node) awaitEnd() {
	defer close(n.done)
	for {
		n.exit = n.pack.exitOf(n.node)
		n.launcher.changeMembers(n.pack, n, false)
		if !n.isMoving() {
			n.logEnd()
			return
		}
		if err := n.place(false); err != nil {
			klog.Background().Error(err, "Moving a hollow node to another pack failed: it is started again", "node", n.spec.Name)
			n.finishMove(n.pack, n.node)
			return
		}
	}
}

// isMoving reports whether the node is to continue in another pack. One that somebody ended meanwhile is not.
func (n *Node) isMoving() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.moves != nil && n.ordered {
		close(n.moves)
		n.moves = nil
	}
	return n.moves != nil
}

// finishMove lets the node be where it was placed. What it was sent on the way it gets there.
func (n *Node) finishMove(p *running, node *pack.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pack, n.node = p, node
	if n.moves != nil {
		close(n.moves)
		n.moves = nil
	}
	if n.killed {
		node.Signal(syscall.SIGKILL)
		n.ensureEnd()
	} else if n.ordered {
		node.Signal(syscall.SIGTERM)
	}
}

// moveNode lets the node end in its pack and start in another one, and returns when it has.
func (n *Node) moveNode() {
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

// logEnd notes in the node's log that it has ended with its pack.
func (n *Node) logEnd() {
	if _, err := n.node.Exit(); errors.Is(err, pack.ErrGone) && !n.pack.alone {
		_, _ = fmt.Fprintf(n.spec.Log, "hollow-node: the process that it shares with other nodes has ended with code %d; the log of the podhost says why\n", n.exit.Code)
	}
}

// exitOf waits for the end of a node, and of the pack of one. A node that ended with its pack has the pack's exit code.
func (p *running) exitOf(node *pack.Node) Exit {
	code, err := node.Exit()
	if p.alone || errors.Is(err, pack.ErrGone) {
		select {
		case <-p.done:
		case <-time.After(goneTimeout):
			_ = p.child.Signal(syscall.SIGKILL)
			<-p.done
		}
	}
	if errors.Is(err, pack.ErrGone) {
		return p.exit
	}
	exit := Exit{Code: code, At: time.Now()}
	if code == pack.ExitKilled {
		exit.Signal = syscall.SIGKILL
	}
	return exit
}
