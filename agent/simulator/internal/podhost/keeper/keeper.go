// Package keeper is the process between a podhost and the processes of its
// containers. It starts them, and when the podhost ends, however it ends, it
// kills all of them before it ends itself.
//
// The kernel gives every orphan among the descendants of a keeper to the
// keeper. So a process cannot get away by leaving its group or session, by
// being forked twice, by ignoring signals or by clearing its environment. Only
// if the keeper is killed as well can descendants be left.
//
// A program that links this package can become a keeper: it starts itself
// again with the arguments of Args. Like the exec shim, a keeper never reaches
// main; it starts before most of a large program's packages are initialised,
// and stays small, as long as nothing outside the standard library is imported
// here.
//
// The podhost holds one end of a socket whose other end is the keeper's file
// descriptor ControlFD. The end of that connection is the order to end. Each
// message on it carries the file descriptors of one process to be started: the
// connection of that process, and its standard output, its standard error and
// its descriptor 3. On the process's own connection the podhost sends a
// Command and then the numbers of signals for the process's group. It receives
// one Event when the process is started and one when it has ended.
package keeper

import (
	"fmt"
	"os"
)

const (
	// word is the private first argument that makes init act.
	word = "hollowfleet-keeper"
	// ControlFD is the file descriptor of the connection with the podhost.
	ControlFD = 3
	// filesPerProcess is how many file descriptors a message carries.
	filesPerProcess = 4
)

// Command says which program to start.
type Command struct {
	Path string
	Argv []string
	Env  []string
	Dir  string
}

// Event tells what has happened to a process.
type Event struct {
	// PID is the started process, 0 if it could not be started.
	PID int
	// Failure says why it could not be started.
	Failure string
	// Status is the wait status of a process that has ended.
	Status uint32
}

// Args returns the arguments, the program's name included, with which the
// running program must be started again.
func Args() []string { return []string{"podhost-keeper", word} }

func init() {
	if len(os.Args) < 2 || os.Args[1] != word {
		return
	}
	if err := keep(); err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
