// Command simcluster runs a whole Kubernetes control plane as local processes,
// without containers.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	_ "github.com/hollowfleet/hollowfleet/agent/simulator/internal/memprofile" // No profiles are served.
)

// componentArg is the first argument of a child process that is a component.
const componentArg = "run-component"

// The exit codes. They are documented in the help and stay as they are.
const (
	exitOK         = 0
	exitFailure    = 1
	exitUsage      = 2
	exitInUse      = 3
	exitPortTaken  = 4
	exitNotReady   = 5
	exitNotRunning = 6
	exitUnhealthy  = 7
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == componentArg {
		os.Exit(runComponent(os.Args[2], os.Args[3:]))
	}
	os.Exit(run())
}

func run() int {
	err := newRootCommand().Execute()
	if err != nil {
		fmt.Fprintf(os.Stderr, "simcluster: %v\n", err)
	}
	return exitCode(err)
}

// errUnhealthy is returned by status for a cluster that runs but is not well.
var errUnhealthy = errors.New("the cluster is not healthy")

func exitCode(err error) int {
	codes := []struct {
		err  error
		code int
	}{
		{controlplane.ErrInvalid, exitUsage},
		{controlplane.ErrInUse, exitInUse},
		{controlplane.ErrPortTaken, exitPortTaken},
		{controlplane.ErrNotReady, exitNotReady},
		{controlplane.ErrNotRunning, exitNotRunning},
		{errUnhealthy, exitUnhealthy},
	}
	if err == nil {
		return exitOK
	}
	for _, known := range codes {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return exitFailure
}
