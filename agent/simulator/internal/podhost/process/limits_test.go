package process

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// limitFiles lets a process open no file whose descriptor is the limit or
// above, until the returned function is called.
func limitFiles(t *testing.T, pid int, limit uint64) (restore func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: before.Max}, nil); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil); err != nil {
			t.Error(err)
		}
	}
}

// The kernel cuts off the descriptors of a message when the receiver may open no more files.
// Edge case: A keeper without files killed all nodes.
func TestAKeeperWithTooManyFilesKeepsItsProcesses(t *testing.T) {
	launcher := newLauncher(t)
	before, err := launcher.Start(shell("exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	restore := limitFiles(t, launcher.keeper.PID(), 0)
	_, err = launcher.Start(shell("exit 0"))
	restore()
	if err == nil || !strings.Contains(err.Error(), "too many open files") {
		t.Errorf("starting a process while the keeper may open no files gave %v", err)
	}
	after, err := launcher.Start(shell("exit 3"))
	if err != nil {
		t.Fatalf("starting a process when the keeper may open files again: %v", err)
	}
	if exit := wait(t, after); exit.Code != 3 {
		t.Errorf("the process after it ended with %+v", exit)
	}
	if !alive(before.PID()) {
		t.Error("the process before it was killed")
	}
}

// A process that cannot be examined is not one that has gone.
// Edge case: Unreadable processes counted as gone.
func TestKillMarkedReportsWhatItCannotExamine(t *testing.T) {
	spec := shell("exec sleep 1000")
	spec.Env = append(spec.Env, "MARK=unexamined")
	p := start(t, spec)
	for name, free := range map[string]uint64{"the process cannot be opened": 0, "its environment cannot be opened": 1} {
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		lowest := uint64(null.Fd())
		null.Close()
		restore := limitFiles(t, os.Getpid(), lowest+free)
		err = killIfMarked(p.PID(), "MARK=unexamined")
		restore()
		if err == nil {
			t.Errorf("%s: no error, as if it had gone", name)
		}
		if !alive(p.PID()) {
			t.Fatalf("%s: it was killed", name)
		}
	}
	if err := killIfMarked(p.PID(), "MARK=unexamined"); err != nil {
		t.Errorf("with enough files: %v", err)
	}
	wait(t, p)
}
