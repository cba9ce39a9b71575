package memprofile

import (
	"runtime"
	"testing"
)

// Claim: An agent that serves profiles has those of its memory. Broken: the profiler always off; always on.
func TestTheProfilerIsOffUnlessItIsServed(t *testing.T) {
	if runtime.MemProfileRate != 0 {
		t.Error("it is on in a program that serves no profiles")
	}
	for _, args := range [][]string{{"agent", "--pprof-address", "127.0.0.1:1"}, {"agent", "--pprof-address=127.0.0.1:1"}} {
		if !isServed(args) {
			t.Errorf("%v: it is off", args)
		}
	}
}
