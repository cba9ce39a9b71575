package main

import (
	"runtime"
	"testing"
)

// Claim: A control plane uses all processors. Broken: a package that is meant for hollow-node, and leaves it one, is imported.
func TestComponentsMayUseAllProcessors(t *testing.T) {
	got := runtime.GOMAXPROCS(0)
	runtime.SetDefaultGOMAXPROCS()
	if want := runtime.GOMAXPROCS(0); got != want {
		t.Errorf("simcluster starts with %d processors, want %d", got, want)
	}
}
