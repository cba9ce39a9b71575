// Package group runs the control planes of up to ten clusters in one process, and starts that process again when it ends.
//
// There are three processes. The supervisor (group.go) has what must outlive a panic: the clusters' locks, ports, control
// sockets and ready.json files. The second one (host.go) has the components of control planes and nothing else, and the third
// the podhosts, of which a panic ends no control plane. To the supervisor each component is a run like that of a process:
// client.go turns it into requests to the other processes.
package group

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
)

const (
	// groupSocket is where the supervisor answers. A shared process has a socket and a log with its name.
	groupSocket  = "group.sock"
	socketSuffix = ".sock"
	logSuffix    = ".log"
	// statusFile is the state of the group for those who only read it.
	statusFile = "status.json"

	// pidHeader and runHeader identify a run in the answer to its start; exitTrailer says how it ended.
	pidHeader   = "Pid"
	runHeader   = "Run"
	exitTrailer = "Exit"
)

// runRequest asks for the run of a component.
type runRequest struct {
	Cluster   string   `json:"cluster"`
	Component string   `json:"component"`
	Args      []string `json:"args"`
}

// startRequest asks for a cluster.
type startRequest struct {
	Options controlplane.Options `json:"options"`
}

// startAnswer is one line of the answer: a line of progress, or the last one.
type startAnswer struct {
	Line string `json:"line,omitempty"`
	// Ready says that the cluster is ready, and stays when the one that asked goes.
	Ready bool `json:"ready,omitempty"`
	// Error and Kind say why it is not.
	Error string `json:"error,omitempty"`
	Kind  int    `json:"kind,omitempty"`
}

// kinds are the errors that have exit codes of their own; their order is their number on the wire.
var kinds = []error{nil, controlplane.ErrInvalid, controlplane.ErrInUse, controlplane.ErrPortTaken, controlplane.ErrNotReady, controlplane.ErrNotRunning}

func kindOf(err error) int {
	for number, kind := range kinds {
		if kind != nil && errors.Is(err, kind) {
			return number
		}
	}
	return 0
}

// remoteError is an error that another process has reported.
type remoteError struct {
	text string
	kind error
}

func (e remoteError) Error() string { return e.text }

func (e remoteError) Unwrap() error { return e.kind }

func (a startAnswer) failure() error {
	if a.Kind <= 0 || a.Kind >= len(kinds) {
		return errors.New(a.Error)
	}
	return remoteError{text: a.Error, kind: kinds[a.Kind]}
}

// socketClient is a client of what listens on the socket. Requests have no host.
func socketClient(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
}

func url(path string) string { return "http://simcluster" + path }

// listenSocket listens on a socket in the directory. An earlier process has left its own.
func listenSocket(dir, name string) (net.Listener, error) {
	listener, err := net.Listen("unix", filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("serving the group: %w; choose a shorter --dir on a local file system if the path is too long", err)
	}
	return listener, nil
}

func encode(value any) []byte {
	content, err := json.Marshal(value)
	if err != nil {
		panic(err) // Only types of this package are encoded.
	}
	return append(content, '\n')
}
