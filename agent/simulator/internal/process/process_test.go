package process_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

// role makes this test program play another process.
const role = "PROCESS_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "supervisor":
		supervise()
	case "parent":
		startOrphan()
	default:
		os.Exit(m.Run())
	}
}

// supervise starts children in the way that simcluster does, prints their
// process ids and waits to be killed.
func supervise() {
	spawner := process.NewSpawner()
	for range 5 {
		child, err := spawner.Start(process.Command{Path: "/bin/sleep", Args: []string{"1000"}, Output: io.Discard})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(child.PID())
	}
	waitForKill()
}

// startOrphan starts a process, prints its process id and waits to be killed.
func startOrphan() {
	command := exec.Command("/bin/sleep", "1000")
	if err := command.Start(); err != nil {
		os.Exit(1)
	}
	fmt.Println(command.Process.Pid)
	waitForKill()
}

// waitForKill blocks forever without a deadlock in the eyes of Go.
func waitForKill() {
	reader, _, err := os.Pipe()
	if err == nil {
		_, _ = reader.Read(make([]byte, 1))
	}
	os.Exit(1)
}

// play starts this test program in a role and returns it with the numbers that
// it prints.
func play(t *testing.T, name string, numbers int) (*exec.Cmd, []int) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), role+"="+name)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	lines := bufio.NewScanner(output)
	var read []int
	for len(read) < numbers && lines.Scan() {
		number, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("the process in role %s printed %q", name, lines.Text())
		}
		read = append(read, number)
	}
	if len(read) < numbers {
		t.Fatalf("the process in role %s printed %v, want %d numbers", name, read, numbers)
	}
	return command, read
}

// eventually wants the condition to hold within ten seconds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("within 10 s it did not come true that %s", what)
		case <-ticker.C:
		}
	}
}

// runs reports whether the process is there and not a zombie.
func runs(pid int) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(content), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestChildrenEndWithAKilledSupervisor(t *testing.T) {
	supervisor, children := play(t, "supervisor", 5)
	for _, child := range children {
		if !runs(child) {
			t.Fatalf("child %d does not run", child)
		}
		// A terminal sends its interrupt to a whole group.
		if group, err := syscall.Getpgid(child); err != nil || group != child {
			t.Errorf("child %d is in group %d (%v), want one of its own", child, group, err)
		}
	}
	if err := supervisor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		eventually(t, fmt.Sprintf("child %d is gone", child), func() bool { return !runs(child) })
	}
}

func TestParentIsWatched(t *testing.T) {
	command, numbers := play(t, "parent", 1)
	t.Cleanup(func() { _ = syscall.Kill(numbers[0], syscall.SIGKILL) })
	parent, err := process.WatchParent(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- parent.Wait(context.Background()) }()
	select {
	case err := <-ended:
		t.Fatalf("the watch ended with %v while the process runs", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the watch ended with %v, want nil", err)
		}
	case <-time.After(time.Minute):
		t.Error("the watch did not notice the end of the process")
	}
	_ = command.Wait()
	if _, err := process.WatchParent(command.Process.Pid); !errors.Is(err, process.ErrNoParent) {
		t.Errorf("watching a process that is gone gave %v, want ErrNoParent", err)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	parent, err := process.WatchParent(0)
	if err != nil {
		t.Fatal(err)
	}
	if parent.PID() != os.Getppid() {
		t.Errorf("watching %d, want the parent %d", parent.PID(), os.Getppid())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := parent.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}
