package group_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/group"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/testlog"
)

// ownGroup is a group whose supervisor is this process.
type ownGroup struct {
	dir, data  string
	components []string
	output     testlog.Buffer
	end        func() error
}

// newOwnGroup runs a group with a cluster that has etcd only, or these components.
func newOwnGroup(t *testing.T, options group.Options, components ...string) *ownGroup {
	t.Helper()
	dir, err := os.MkdirTemp("", "group") //nolint:usetesting // The path of a test's own directory is too long for a socket.
	if err != nil {
		t.Fatal(err)
	}
	g := &ownGroup{dir: filepath.Join(dir, "g"), data: filepath.Join(dir, "c1"), components: append([]string{controlplane.Etcd}, components...)}
	options.Dir, options.Executable, options.ChildArg, options.Progress = g.dir, binary(t), "run-component", &g.output
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- group.Run(ctx, options) }()
	g.end = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := g.end(); err != nil {
			t.Errorf("the group: %v", err)
		}
		if t.Failed() {
			t.Log(g.output.String())
		}
		os.RemoveAll(dir)
	})
	eventually(t, "the group to answer", func() bool { _, err := group.FetchStatus(t.Context(), g.dir); return err == nil })
	if err := g.startCluster(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *ownGroup) startCluster(ctx context.Context) error {
	return group.StartCluster(ctx, g.dir, controlplane.Options{
		Name: "c1", DataDir: g.data, Components: g.components, Progress: &g.output,
		ExtraArgs: map[string][]string{controlplane.Podhost: {`options={"HollowNodesOf":"hollowfleet"}`}},
	})
}

func (g *ownGroup) status(t *testing.T) group.Status {
	t.Helper()
	status, err := group.FetchStatus(t.Context(), g.dir)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func (g *ownGroup) isHealthy(t *testing.T) bool {
	t.Helper()
	status, err := controlplane.FetchStatus(t.Context(), g.data)
	return err == nil && status.Healthy
}

func signal(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
}

// suspend returns when no thread of the process runs.
func suspend(t *testing.T, pid int) {
	t.Helper()
	signal(t, pid, syscall.SIGSTOP)
	eventually(t, "all threads to stop", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("the threads of process %d: %v", pid, err)
		}
		for _, thread := range threads {
			if content, err := os.ReadFile(thread); err == nil && !bytes.Contains(content, []byte(") T ")) {
				return false
			}
		}
		return true
	})
}

// Claim: A shared process that answers none of 36 checks is started again; one that continues before is not. Broken: no check; an answer does not reset the count.
func TestASilentProcessIsStartedAgain(t *testing.T) {
	t.Parallel()
	g := newOwnGroup(t, group.Options{CheckEvery: 200 * time.Millisecond})
	first := g.status(t).Process
	for range 2 {
		suspend(t, first.PID)
		// Two such stops together are more than the limit.
		eventually(t, "checks without an answer", func() bool { return g.status(t).Unanswered > group.MaxUnanswered/2 })
		signal(t, first.PID, syscall.SIGCONT)
		eventually(t, "an answer", func() bool { return g.status(t).Unanswered == 0 })
	}
	if now := g.status(t).Process; now != first {
		t.Errorf("a process that continued was started again: %+v", now)
	}
	suspend(t, first.PID)
	eventually(t, "another process", func() bool {
		now := g.status(t)
		return now.Process.PID != 0 && now.Process.PID != first.PID && now.Unanswered == 0
	})
	eventually(t, "a healthy cluster", func() bool { return g.isHealthy(t) })
	if now := g.status(t).Process; now.Restarts != 1 || !strings.Contains(now.LastExit, "killed") {
		t.Errorf("the process: %+v", now)
	}
	log, err := os.ReadFile(filepath.Join(g.dir, "planes.log"))
	if want := "has answered none of 36 checks"; err != nil || !strings.Contains(string(log), want) || !strings.Contains(g.output.String(), want) {
		t.Errorf("log and output do not say %q: %v", want, err)
	}
}

// Claim: The data directory of a cluster in a group is in use until its last component has ended. Broken: the wait is given up.
func TestTheLockOutlivesASlowStop(t *testing.T) {
	t.Parallel()
	g := newOwnGroup(t, group.Options{CheckEvery: time.Hour, KillWait: 100 * time.Millisecond})
	shared := g.status(t).Process.PID
	suspend(t, shared)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := controlplane.Shutdown(ctx, g.data); err == nil || !strings.Contains(err.Error(), "group stop") {
		t.Errorf("the stop: %v", err)
	}
	eventually(t, "the stop to be late", func() bool { return strings.Contains(g.output.String(), "did not end within") })
	if err := controlplane.Run(t.Context(), controlplane.Options{Name: "c1", DataDir: g.data, Components: []string{controlplane.Etcd}}); !errors.Is(err, controlplane.ErrInUse) {
		t.Errorf("a start while etcd runs: %v", err)
	}
	signal(t, shared, syscall.SIGCONT)
	if err := controlplane.WaitStopped(t.Context(), g.data); err != nil {
		t.Fatal(err)
	}
	if err := g.startCluster(t.Context()); err != nil {
		t.Error(err)
	}
	// A group stops also while its process is suspended.
	suspend(t, shared)
	if err := g.end(); err != nil {
		t.Error(err)
	}
}

// Claim: A silent process of podhosts is started again, and the group says of which clusters it was. Broken: only the control planes are checked.
func TestSilentPodhostsAreStartedAgain(t *testing.T) {
	t.Parallel()
	g := newOwnGroup(t, group.Options{CheckEvery: 100 * time.Millisecond}, controlplane.APIServer, controlplane.Podhost)
	first := g.status(t)
	suspend(t, first.Podhosts.PID)
	eventually(t, "another process", func() bool {
		now := g.status(t).Podhosts
		return now.PID != 0 && now.PID != first.Podhosts.PID && now.Unanswered == 0
	})
	eventually(t, "a healthy cluster", func() bool { return g.isHealthy(t) })
	if now := g.status(t); now.Process != first.Process || now.Podhosts.Restarts != 1 {
		t.Errorf("the group: %+v, then %+v", first, now)
	}
	for _, want := range []string{"has answered none of 36 checks", "with the podhosts and hollow nodes of 1 clusters (c1)"} {
		if !strings.Contains(g.output.String(), want) {
			t.Errorf("the group does not say %q", want)
		}
	}
	// A group stops also while that process is suspended.
	suspend(t, g.status(t).Podhosts.PID)
	if err := g.end(); err != nil {
		t.Error(err)
	}
}
