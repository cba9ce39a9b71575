// Package memprofile turns the memory profiler off in an agent that serves no profiles: the profiler's tables are more than a megabyte, and
// a machine may run an agent for each of many simulated clusters.
//
// Packages are initialised in the order of their paths as far as imports allow, and this one comes before those of Kubernetes.
package memprofile

import (
	"os"
	"runtime"
	"slices"
	"strings"
)

func init() {
	if !isServed(os.Args) {
		runtime.MemProfileRate = 0
	}
}

// isServed reports whether a command line has an address for profiles. One that says 0, for none, counts too.
func isServed(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--pprof-address") })
}
