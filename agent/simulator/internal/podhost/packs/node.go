package packs

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
)

// goneTimeout bounds how long a pack takes to end that has closed the connection of a node.
const goneTimeout = 10 * time.Second

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
	pack     *running
	node     *pack.Node
	leaves   chan struct{}
	done     chan struct{}
	exit     Exit // valid once done is closed
}

// Done is closed when the node has ended and its log is complete.
func (n *Node) Done() <-chan struct{} { return n.done }

// Leaves is closed when the node has to end and start again in another pack, because this one is replaced.
func (n *Node) Leaves() <-chan struct{} { return n.leaves }

// Exit tells how the node ended. It waits for the end.
func (n *Node) Exit() Exit {
	<-n.done
	return n.exit
}

// Signal sends a signal to the node: SIGKILL kills it, SIGTERM ends it. A pack that does not carry out a kill is killed: whoever kills
// waits for the end. That of this node alone ends at once.
func (n *Node) Signal(signal syscall.Signal) {
	if signal == syscall.SIGKILL && n.pack.alone {
		_ = n.pack.child.Signal(syscall.SIGKILL)
		return
	}
	n.node.Signal(signal)
	if signal == syscall.SIGKILL {
		go n.ensureEnd()
	}
}

// ensureEnd kills the pack of a node that was killed if it does not end it.
func (n *Node) ensureEnd() {
	select {
	case <-n.done:
	case <-time.After(n.launcher.options.KillTimeout):
		klog.Background().Error(nil, "Killing a pack of hollow nodes: it does not end a node that was killed", "node", n.spec.Name)
		_ = n.pack.child.Signal(syscall.SIGKILL)
	}
}

// awaitEnd waits until the node has ended, and notes in its log if that was with its pack.
func (n *Node) awaitEnd() {
	defer close(n.done)
	n.exit = n.pack.exitOf(n.node)
	n.launcher.removeMember(n)
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
