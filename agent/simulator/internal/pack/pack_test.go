package pack

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/testlog"
)

// patience is how long anything may take here on a busy machine.
const patience = 30 * time.Second

// runScript is a node that does what its first argument says.
func runScript(ctx context.Context, order Order) (int, error) {
	script := order.Args[0]
	if script == "refuse" {
		return 0, fmt.Errorf("%w: of another kind", ErrRefused)
	}
	fmt.Fprintln(order.Log, "before")
	order.Started()
	fmt.Fprintln(order.Log, "after")
	if script == "exit" {
		return 3, nil
	}
	select {
	case <-ctx.Done():
		return 0, nil
	case <-order.Kill:
		return ExitKilled, nil
	}
}

// startPack serves a pack in a directory of its own, and returns the directory and what Serve returns.
func startPack(t *testing.T, most int) (string, <-chan error) {
	t.Helper()
	directory := t.TempDir()
	t.Chdir(directory)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, most, runScript) }()
	t.Cleanup(cancel)
	deadline := time.Now().Add(patience)
	for Reach(directory) != nil {
		if time.Now().After(deadline) {
			t.Fatal("the pack does not listen")
		}
	}
	return directory, ended
}

func dial(t *testing.T, directory, script string) (*Node, *testlog.Buffer) {
	t.Helper()
	text := &testlog.Buffer{}
	node, err := Dial(directory, Start{Args: []string{script}}, text)
	if err != nil {
		t.Fatal(err)
	}
	return node, text
}

func expectExit(t *testing.T, node *Node, want int) {
	t.Helper()
	select {
	case <-node.Done():
	case <-time.After(patience):
		t.Fatal("the node does not end")
	}
	if got, err := node.Exit(); got != want || err != nil {
		t.Errorf("the node ended with %d, %v, want %d", got, err, want)
	}
}

func TestANodeIsLikeAProcess(t *testing.T) {
	directory, ended := startPack(t, 10)
	stays, _ := dial(t, directory, "wait")
	exits, text := dial(t, directory, "exit")
	expectExit(t, exits, 3)
	if text.String() != "before\nafter\n" {
		t.Errorf("the log is %q", text)
	}
	for signal, want := range map[syscall.Signal]int{syscall.SIGTERM: 0, syscall.SIGINT: 0, syscall.SIGKILL: ExitKilled} {
		node, _ := dial(t, directory, "wait")
		node.Signal(syscall.SIGHUP)
		node.Signal(signal)
		expectExit(t, node, want)
		node.Signal(signal) // It has ended: nothing happens.
	}
	select {
	case err := <-ended:
		t.Fatalf("the pack ends before its last node: %v", err)
	default:
	}
	stays.Signal(syscall.SIGTERM)
	expectExit(t, stays, 0)
	expectEnd(t, ended)
}

func expectEnd(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the pack ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the pack does not end")
	}
}

func TestAPackRefusesWhatAnotherMayTake(t *testing.T) {
	directory, ended := startPack(t, 2)
	first, _ := dial(t, directory, "wait")
	for _, script := range []string{"refuse", "wait"} { // The second one is one too many: a refused one counts, so that a pack always ends.
		if _, err := Dial(directory, Start{Args: []string{script}}, &testlog.Buffer{}); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want ErrRefused", script, err)
		}
	}
	first.Signal(syscall.SIGTERM)
	expectEnd(t, ended)
	if _, err := Dial(directory, Start{Args: []string{"wait"}}, &testlog.Buffer{}); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("a pack that has ended answers %v", err)
	}
}

func TestANodeIsKilledWithoutTheOneWhoOrderedIt(t *testing.T) {
	directory, ended := startPack(t, 10)
	node, _ := dial(t, directory, "wait")
	if err := node.connection.Close(); err != nil {
		t.Fatal(err)
	}
	expectEnd(t, ended)
	<-node.Done()
	if _, err := node.Exit(); !errors.Is(err, ErrGone) {
		t.Errorf("the node's end is %v, want ErrGone", err)
	}
}
