// Package footprint keeps a hollow-node's memory small. A machine runs hundreds of them, so a megabyte
// saved here is worth more than elsewhere.
//
// It is for hollow-node alone: a program that imports it has one processor.
// Part of the work is done while the process initialises: packages are initialised in the order of their
// paths as far as imports allow, and this one, which imports little, comes before those of Kubernetes.
package footprint

import (
	"os"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
)

// ProfilingFlag is the command line flag that leaves the memory profiler on.
const ProfilingFlag = "--profiling"

const (
	// packProcessors is how many processors a pack uses while it has work for them, as when its nodes start at once.
	packProcessors = 2
	// startingGCPercent collects more often than usual while packages initialise, so that what they leave
	// behind lies closer together: a third of a megabyte for ten milliseconds.
	startingGCPercent = 50
	// restingGCPercent lets the heap grow by this share before it is collected. A hollow-node allocates
	// half a megabyte a minute at rest, so that collecting early costs next to nothing. Nodes join a pack at any time: see package idle.
	restingGCPercent = 30
)

func init() {
	debug.SetGCPercent(startingGCPercent)
	// Go keeps caches for every processor it may use. One node has no work for more than one.
	if isPack() {
		runtime.GOMAXPROCS(min(packProcessors, runtime.NumCPU()))
	} else {
		runtime.GOMAXPROCS(1)
	}
	// The profiler's tables are more than a megabyte.
	if !slices.Contains(os.Args, ProfilingFlag) {
		runtime.MemProfileRate = 0
	}
}

// Rest gives back what start-up needed and is not needed any more.
func Rest() {
	if !isPack() {
		debug.SetGCPercent(restingGCPercent)
	}
	debug.FreeOSMemory()
}

func isPack() bool { return len(os.Args) > 1 && os.Args[1] == pack.Command }
