package process_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

var errUnwell = errors.New("unwell")

// script is a unit whose runs are shell scripts in real processes.
type script struct {
	*process.Unit
	healthy atomic.Bool
	changes atomic.Int32
}

func newScript(t *testing.T, text string, grace time.Duration) *script {
	t.Helper()
	s := &script{}
	s.healthy.Store(true)
	spawner := process.NewSpawner()
	s.Unit = process.NewUnit(process.Options{
		Name: "script",
		Launch: func(context.Context) (process.Instance, error) {
			return spawner.Start(process.Command{Path: "/bin/sh", Args: []string{"-c", text}, Output: io.Discard})
		},
		Healthy: func(context.Context) error {
			if s.healthy.Load() {
				return nil
			}
			return errUnwell
		},
		OnChange: func() { s.changes.Add(1) },
		Grace:    grace,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		cancel()
		loop.Wait()
	})
	return s
}

func (s *script) startHealthy(t *testing.T) process.Status {
	t.Helper()
	s.Start()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := s.WaitHealthy(ctx); err != nil {
		t.Fatal(err)
	}
	return s.Status()
}

func TestKilledUnitIsRestarted(t *testing.T) {
	unit := newScript(t, "exec sleep 1000", time.Second)
	first := unit.startHealthy(t)
	if first.State != process.StateRunning || first.PID == 0 {
		t.Fatalf("status %+v, want a running process", first)
	}
	before := unit.changes.Load()
	if err := unit.Kill(context.Background()); err != nil {
		t.Fatal(err)
	}
	if runs(first.PID) {
		t.Error("the process runs after Kill has returned")
	}
	second := unit.startHealthy(t)
	if second.PID == first.PID || second.Restarts != 1 {
		t.Errorf("status %+v after a kill, want another process and 1 restart", second)
	}
	if !strings.Contains(second.LastExit, "killed") {
		t.Errorf("last exit %q, want it to name the signal", second.LastExit)
	}
	if unit.changes.Load() == before {
		t.Error("no waiter was woken by the change")
	}
}

func TestStoppedUnitStaysDown(t *testing.T) {
	unit := newScript(t, "exec sleep 1000", time.Second)
	last := unit.startHealthy(t)
	begun := time.Now()
	for range 20 {
		if err := unit.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		if status := unit.Status(); status.State != process.StateStopped || status.PID != 0 || runs(last.PID) {
			t.Errorf("status %+v, process there: %t", status, runs(last.PID))
		}
		if err := unit.Kill(context.Background()); err == nil {
			t.Error("a stopped unit could be killed")
		}
		next := unit.startHealthy(t)
		if next.PID == last.PID {
			t.Errorf("the start gave the old process %d", next.PID)
		}
		last = next
	}
	// Each crash would wait for a second and more.
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("20 starts after stops took %s, as if they came after crashes", took)
	}
}

func TestAStopEndsTheWaitAfterACrash(t *testing.T) {
	unit := newScript(t, "exit 3", time.Second)
	unit.healthy.Store(false)
	unit.Start()
	begun := time.Now()
	for run := range 20 {
		eventually(t, "it waits after another crash", func() bool {
			status := unit.Status()
			return status.State == process.StateWaiting && status.Restarts == run
		})
		if err := unit.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		unit.Start()
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("20 starts in the wait after a crash took %s, as if it had not been stopped", took)
	}
}

func TestStubbornUnitIsKilled(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "trapped")
	unit := newScript(t, "trap '' TERM; touch "+marker+"; while :; do sleep 0.1; done", 300*time.Millisecond)
	status := unit.startHealthy(t)
	eventually(t, "the process ignores SIGTERM", func() bool {
		_, err := os.Stat(marker)
		return err == nil
	})
	begun := time.Now()
	if err := unit.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if runs(status.PID) {
		t.Error("the process runs after the stop")
	}
	if took := time.Since(begun); took < 300*time.Millisecond {
		t.Errorf("the process had %s to end, want the grace of 300ms", took)
	}
}

func TestPausedUnit(t *testing.T) {
	unit := newScript(t, "trap 'exit 0' TERM; while :; do sleep 0.05; done", time.Minute)
	status := unit.startHealthy(t)
	if err := unit.Pause(); err != nil {
		t.Fatal(err)
	}
	if got := unit.Status().State; got != process.StatePaused {
		t.Errorf("state %s, want paused", got)
	}
	eventually(t, "the process is suspended", func() bool { return processState(status.PID) == "T" })
	if err := unit.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process continues", func() bool { return processState(status.PID) != "T" })
	if got := unit.Status().State; got != process.StateRunning {
		t.Errorf("state %s, want running", got)
	}
	if err := unit.Pause(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := unit.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("stopping a paused process took %s: it was not resumed to end in order", took)
	}
}

func TestUnitThatNeverComesUp(t *testing.T) {
	unit := newScript(t, "exit 3", time.Second)
	unit.healthy.Store(false)
	unit.Start()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	err := unit.WaitHealthy(ctx)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("got %v, want an error with the exit status", err)
	}
}

func TestHealthComesLater(t *testing.T) {
	unit := newScript(t, "exec sleep 1000", time.Second)
	unit.healthy.Store(false)
	unit.Start()
	eventually(t, "the process runs", func() bool { return unit.Status().PID != 0 })
	if got := unit.Status().State; got != process.StateStarting {
		t.Errorf("state %s before the first healthy answer, want starting", got)
	}
	unit.healthy.Store(true)
	unit.startHealthy(t)
}

func processState(pid int) string {
	var state string
	if content, err := readStat(pid); err == nil {
		_, rest, _ := strings.Cut(content, ") ")
		state, _, _ = strings.Cut(rest, " ")
	}
	return state
}

// A stop that comes while the run is only just being started must wait for it
// and end it.
func TestStopDuringStart(t *testing.T) {
	launching, launch := make(chan struct{}), make(chan struct{})
	spawner := process.NewSpawner()
	var pid atomic.Int64
	unit := process.NewUnit(process.Options{
		Name: "slow",
		Launch: func(context.Context) (process.Instance, error) {
			close(launching)
			<-launch
			instance, err := spawner.Start(process.Command{Path: "/bin/sleep", Args: []string{"1000"}, Output: io.Discard})
			if err == nil {
				pid.Store(int64(instance.PID()))
			}
			return instance, err
		},
		Healthy: func(context.Context) error { return nil },
		Grace:   time.Minute,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() { unit.Run(ctx) })
	defer loop.Wait()
	defer cancel()
	unit.Start()
	<-launching
	stopped := make(chan error, 1)
	go func() { stopped <- unit.Stop(ctx) }()
	select {
	case err := <-stopped:
		t.Errorf("the stop returned %v while the run was being started", err)
		stopped <- err
	case <-time.After(200 * time.Millisecond):
	}
	close(launch)
	begun := time.Now()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if runs(int(pid.Load())) {
		t.Errorf("process %d runs after the stop", pid.Load())
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("the stop took %s: the new process was not told to end", took)
	}
}
