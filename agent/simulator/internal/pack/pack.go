// Package pack runs many hollow nodes in one process, on behalf of another process.
//
// A pack listens on a unix socket. Each connection is one node, from its start to its end: whoever dials sends a Start, and then
// the numbers of signals, as if to a process; the pack answers with Events, of which the last has the exit code. When the
// connection ends the node is killed.
package pack

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Command is the command of hollow-node that runs a pack.
const Command = "pack"

// Socket is the name of a pack's socket in its directory.
const Socket = "pack.sock"

// answerTimeout is how long a pack may take to say whether it takes a node.
const answerTimeout = time.Minute

// ExitKilled is the exit code of a node that was killed, as a process leaves it behind.
const ExitKilled = 128 + int(syscall.SIGKILL)

// Start orders a node.
type Start struct {
	// Args is the node's command line without the program.
	Args []string
	// Name is what the node is called in the trace of a panic.
	Name string
	// Alone is that the pack gets no other node, so that this one may do with the process what it likes.
	Alone bool
}

// Event is what happens to a node.
type Event struct {
	// Log is a part of what the node logs.
	Log []byte
	// Refused says why the pack does not take the node, although another pack may. It is the only Event then.
	Refused string
	// Full is set with Refused by a pack that takes no node any more.
	Full bool
	// Alone is set with Refused if no pack takes the node: it needs a process of its own.
	Alone bool
	// Started is set in the first Event of a node that the pack takes.
	Started bool
	// Ended is set in the last one, with Exit.
	Ended bool
	Exit  int
}

// ErrRefused is wrapped by the error of a Start that another pack may take.
var ErrRefused = errors.New("the pack does not take the node")

// ErrAlone is wrapped by the error of a Start that no pack takes.
var ErrAlone = errors.New("the node needs a process of its own")

// ErrFull is wrapped, with ErrRefused, by the error of a Start in a pack that has had all its nodes.
var ErrFull = errors.New("it has had all its nodes")

// ErrGone is the error of a node whose pack has ended.
var ErrGone = errors.New("the pack has ended")

// Node is a node in a pack, as the process that ordered it sees it.
type Node struct {
	connection net.Conn
	write      sync.Mutex
	encoder    *gob.Encoder
	done       chan struct{}
	exit       int
	err        error
}

// Dial starts a node in the pack of directory. What the node logs is written to log.
func Dial(directory string, start Start, log io.Writer) (*Node, error) {
	connection, err := dialIn(directory)
	if err != nil {
		return nil, fmt.Errorf("reaching the pack in %s: %w", directory, err)
	}
	n := &Node{connection: connection, encoder: gob.NewEncoder(connection), done: make(chan struct{})}
	decoder := gob.NewDecoder(connection)
	if err := n.encoder.Encode(start); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a node in the pack in %s: %w", directory, err), connection.Close())
	}
	// A pack that hangs must not hold up whoever could start the node elsewhere.
	deadlineErr := connection.SetReadDeadline(time.Now().Add(answerTimeout))
	first, err := n.nextEvent(decoder, log)
	err = errors.Join(err, deadlineErr, connection.SetReadDeadline(time.Time{}))
	switch {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("starting a node in the pack in %s: %w", directory, err), connection.Close())
	case first.Alone:
		return nil, errors.Join(fmt.Errorf("%w: %s", ErrAlone, first.Refused), connection.Close())
	case first.Full:
		return nil, errors.Join(fmt.Errorf("%w: %w: %s", ErrRefused, ErrFull, first.Refused), connection.Close())
	case first.Refused != "":
		return nil, errors.Join(fmt.Errorf("%w: %s", ErrRefused, first.Refused), connection.Close())
	}
	go n.followLog(first, decoder, log)
	return n, nil
}

// nextEvent writes the log until something else happens.
func (n *Node) nextEvent(decoder *gob.Decoder, log io.Writer) (Event, error) {
	for {
		var event Event
		if err := decoder.Decode(&event); err != nil {
			return Event{}, err
		}
		if len(event.Log) == 0 {
			return event, nil
		}
		_, _ = log.Write(event.Log) // A log that cannot be written must not stop the node.
	}
}

// followLog writes the log until the node has ended.
func (n *Node) followLog(event Event, decoder *gob.Decoder, log io.Writer) {
	defer close(n.done)
	defer n.connection.Close()
	for !event.Ended {
		var err error
		if event, err = n.nextEvent(decoder, log); err != nil {
			n.exit, n.err = ExitKilled, ErrGone
			return
		}
	}
	n.exit = event.Exit
}

// Reach returns an error if nothing listens in the directory.
func Reach(directory string) error {
	connection, err := dialIn(directory)
	if err != nil {
		return err
	}
	return connection.Close()
}

// dialIn connects to the socket in a directory. The name of a socket may have no more than some hundred bytes, and a directory's is
// often longer.
func dialIn(directory string) (net.Conn, error) {
	opened, err := os.Open(directory)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	return net.Dial("unix", filepath.Join("/proc/self/fd", strconv.Itoa(int(opened.Fd())), Socket))
}

// Signal sends a signal: SIGKILL kills the node, SIGTERM and SIGINT end it, all others do nothing.
func (n *Node) Signal(signal syscall.Signal) {
	n.write.Lock()
	defer n.write.Unlock()
	_ = n.encoder.Encode(int(signal)) // A node that has ended needs none.
}

// Done is closed when the node has ended and its log is complete.
func (n *Node) Done() <-chan struct{} { return n.done }

// Exit returns the exit code of a node that has ended, and ErrGone if it ended with its pack.
func (n *Node) Exit() (int, error) {
	<-n.done
	return n.exit, n.err
}
