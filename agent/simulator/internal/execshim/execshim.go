// Package execshim gives up privileges between the fork of a process and the
// start of its program.
//
// A program that links this package can start itself again with the
// arguments of Command.Args. The new process never reaches main: this
// package's init sets no_new_privs, the user and group, the capability
// bounding set and the parent death signal, and then becomes the wanted
// program. Go initialises packages in the order of their import paths as soon
// as their own imports are ready. This package imports almost nothing, so its
// turn comes before that of the large libraries and a start stays cheap.
// Keep it so: do not import anything outside the standard library here.
//
// The process reports on file descriptor StatusFD. If the program could not be
// started, the reason is written there and the exit code is FailureCode. The
// descriptor is closed without a word when the program starts.
package execshim

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	// word is the private first argument that makes init act.
	word = "hollowfleet-execshim"
	// StatusFD is the file descriptor on which a failure is reported.
	StatusFD = 3
	// FailureCode is the exit code when the program could not be started. It
	// is the code that container runtimes use for the same case.
	FailureCode = 128
)

// Command says which program to become and with which privileges.
type Command struct {
	// Path is the program, as seen by the process before it gives up its
	// privileges. The new user need not be able to reach it, only to execute it.
	Path string
	// Argv are the program's arguments, with its name first.
	Argv []string
	// Parent is the process ID of the parent. If the parent has gone before
	// the death signal is set, the process ends at once.
	Parent int
	// UID and GID are the user and group to become; the supplementary groups
	// are cleared. Both are ignored unless SwitchUser is set.
	SwitchUser bool
	UID, GID   int
	// NoNewPrivileges keeps the program from gaining privileges by execution
	// of set-user-ID files.
	NoNewPrivileges bool
	// DropCapabilities empties the capability bounding set. Without the
	// privilege to do so it sets no_new_privs, which has the same effect for
	// a process that has no capabilities.
	DropCapabilities bool
}

// Args returns the arguments, without the program's own name, with which the
// running program must be started again.
func (c Command) Args() []string {
	options := strings.Join([]string{
		strconv.Itoa(c.Parent),
		strconv.FormatBool(c.SwitchUser),
		strconv.Itoa(c.UID),
		strconv.Itoa(c.GID),
		strconv.FormatBool(c.NoNewPrivileges),
		strconv.FormatBool(c.DropCapabilities),
	}, ",")
	return append([]string{word, options, c.Path}, c.Argv...)
}

var errArguments = errors.New("malformed arguments of the exec shim")

// parse is the inverse of Args.
func parse(args []string) (Command, error) {
	if len(args) < 4 {
		return Command{}, errArguments
	}
	options := strings.Split(args[1], ",")
	if len(options) != 6 {
		return Command{}, errArguments
	}
	var failed error
	number := func(text string) int {
		value, err := strconv.Atoi(text)
		failed = errors.Join(failed, err)
		return value
	}
	flag := func(text string) bool {
		value, err := strconv.ParseBool(text)
		failed = errors.Join(failed, err)
		return value
	}
	command := Command{
		Path:             args[2],
		Argv:             args[3:],
		Parent:           number(options[0]),
		SwitchUser:       flag(options[1]),
		UID:              number(options[2]),
		GID:              number(options[3]),
		NoNewPrivileges:  flag(options[4]),
		DropCapabilities: flag(options[5]),
	}
	return command, failed
}

func init() {
	if len(os.Args) < 2 || os.Args[1] != word {
		return
	}
	command, err := parse(os.Args[1:])
	if err == nil {
		// The write end must not outlive the start of the program.
		syscall.CloseOnExec(StatusFD)
		err = become(command)
	}
	_, _ = syscall.Write(StatusFD, []byte(err.Error()))
	os.Exit(FailureCode)
}
