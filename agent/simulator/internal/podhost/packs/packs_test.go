package packs

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/testlog"
)

const (
	patience = time.Minute
	// most is how many nodes a pack of these tests takes.
	most = 6
)

// TestMain lets the test program be a hollow-node.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != program {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := pack.Serve(ctx, most, runScript); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runScript is a node that does what its first argument says, and has said where it runs.
func runScript(ctx context.Context, order pack.Order) (int, error) {
	if order.Args[0] == "alone" && !order.Alone {
		return 0, fmt.Errorf("%w: it says so", pack.ErrAlone)
	}
	order.Started()
	fmt.Fprintln(order.Log, map[bool]string{true: "alone", false: "pack"}[order.Alone], os.Getpid())
	if order.Args[0] == "status" {
		for _, file := range []string{"/proc/self/status", "/proc/self/stat"} {
			status, _ := os.ReadFile(file)
			fmt.Fprint(order.Log, string(status))
		}
	}
	if order.Args[0] == "panic" {
		go panic("a bug of this node")
	}
	select {
	case <-ctx.Done():
		return 0, nil
	case <-order.Kill:
		return pack.ExitKilled, nil
	}
}

// env is a Launcher of packs with what it says.
type env struct {
	*Launcher
	image  string
	warned testlog.Buffer
}

func newEnv(t *testing.T) *env {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &env{image: t.TempDir()}
	if err := os.Symlink(self, filepath.Join(b.image, program)); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	directory, err := poddir.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		directory.Close()
		if left, err := poddir.Clean(data); err != nil || len(left) > 0 {
			t.Errorf("left %v (%v)", left, err)
		}
	})
	b.Launcher = New(Options{
		Directory: directory, Nodes: 3, User: map[bool]int{true: 65532}[os.Geteuid() == 0], LogLimit: 1 << 20, MovePause: time.Millisecond, KillTimeout: time.Second,
		Warn: func(reason, message string) { fmt.Fprintln(&b.warned, reason, message) },
	})
	t.Cleanup(b.Close)
	return b
}

// started is a node with its log.
type started struct {
	*Node
	log *testlog.Buffer
}

func (b *env) start(t *testing.T, name, script string) started {
	t.Helper()
	log := &testlog.Buffer{}
	running, err := b.Start(Spec{Name: name, Image: b.image, Args: []string{script}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return started{running, log}
}

// place is where a node runs, or ran last.
func (s started) place() string {
	lines := strings.Split(strings.TrimSpace(s.log.String()), "\n")
	return lines[len(lines)-1]
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func expectEnd(t *testing.T, node started, code int) {
	t.Helper()
	select {
	case <-node.Done():
	case <-time.After(patience):
		t.Fatal("the node does not end")
	}
	if got := node.Exit().Code; got != code {
		t.Errorf("the node ended with %d, want %d: %s", got, code, node.log)
	}
}

// Claim: A panic ends its pack and is told; that node gets a process of its own. Broken: the trace has no labels; the node is started in a pack again.
// Edge case: One node with a bug ends all nodes of its pack again and again.
func TestANodeThatEndsItsPackGetsAProcessOfItsOwn(t *testing.T) {
	b := newEnv(t)
	var others []started
	for i := range 5 { // Three of them in a pack of their own.
		others = append(others, b.start(t, fmt.Sprintf("c1/other-%d", i), "wait"))
	}
	culprit := b.start(t, "c1/culprit", "panic")
	expectEnd(t, culprit, 2)
	for _, node := range others[3:] {
		expectEnd(t, node, 2)
		if !strings.Contains(node.log.String(), "shares with other nodes has ended with code 2") {
			t.Errorf("a node that ended with its pack says %q", node.log)
		}
	}
	await(t, "the end of the pack is told", func() bool { return strings.Contains(b.warned.String(), "It was node c1/culprit") })
	again := b.start(t, "c1/culprit", "panic")
	expectEnd(t, again, 2)
	if log := again.log.String(); !strings.HasPrefix(log, "alone ") || !strings.Contains(log, "panic: a bug of this node") {
		t.Errorf("once more it says %q", log)
	}
	for _, node := range others[:3] {
		select {
		case <-node.Done():
			t.Errorf("a node of another pack ended with %d", node.Exit().Code)
		default:
		}
	}
}

// Claim: A pack that dies in a loop is named with the remedy. Broken: each end is told as the first.
func TestAPackThatDiesInALoopIsNamed(t *testing.T) {
	b := newEnv(t)
	for i := range loopEnds {
		node := b.start(t, "c1/node", "wait")
		b.mu.Lock()
		running := b.packs[0]
		b.mu.Unlock()
		_ = running.child.Signal(syscall.SIGKILL)
		expectEnd(t, node, pack.ExitKilled)
		await(t, "the end is told", func() bool { return strings.Count(b.warned.String(), "PackEnded") == i+1 })
		if named := strings.Contains(b.warned.String(), "--nodes-per-pack 1"); named != (i == loopEnds-1) {
			t.Errorf("after %d ends the remedy is named: %t", i+1, named)
		}
	}
}

// Claim: A pack that hangs is killed with its node. Broken: whoever kills a node waits for its pack forever.
// Edge case: A pack hangs.
func TestANodeOfAPackThatHangsIsKilled(t *testing.T) {
	b := newEnv(t)
	node, other := b.start(t, "c1/node", "wait"), b.start(t, "c1/other", "wait")
	b.mu.Lock()
	running := b.packs[0]
	b.mu.Unlock()
	_ = running.child.Signal(syscall.SIGSTOP)
	await(t, "the pack is stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", running.child.PID()))
		return err == nil && strings.Contains(string(stat), ") T ")
	})
	node.Signal(syscall.SIGKILL)
	expectEnd(t, node, pack.ExitKilled)
	expectEnd(t, other, pack.ExitKilled)
	again := b.start(t, "c1/other", "wait")
	await(t, "the other node runs again", func() bool { return again.place() != "" && again.place() != other.place() })
}

// Claim: What needs a process of its own gets one by itself.
func TestANodeThatNeedsAProcessOfItsOwnGetsOne(t *testing.T) {
	b := newEnv(t)
	node := b.start(t, "c1/node", "alone")
	await(t, "the node is started alone", func() bool { return strings.HasPrefix(node.place(), "alone ") })
	node.Signal(syscall.SIGTERM)
	expectEnd(t, node, 0)
}

// Claim: A pack that has had its nodes is replaced node by node. Broken: the nodes stay; all leave at once. Also: agent/simulator/internal/podhost TestANodeMovesWithItsPack.
func TestAPackIsReplacedNodeByNode(t *testing.T) {
	b := newEnv(t)
	stays := b.start(t, "c1/stays", "wait")
	await(t, "the node runs", func() bool { return stays.place() != "" })
	first := stays.place()
	ends := b.start(t, "c1/ends", "wait")
	for range most - 2 {
		node := b.start(t, "c1/goes", "wait")
		node.Signal(syscall.SIGTERM)
		expectEnd(t, node, 0)
		if place := node.place(); place != first {
			t.Fatalf("a node ran in %s before %s had had all its nodes", place, first)
		}
	}
	last := b.start(t, "c1/last", "wait")
	await(t, "the new node runs in another pack", func() bool { return last.place() != first && last.place() != "" })
	select { // One of them is first.
	case <-stays.Leaves():
	case <-ends.Leaves():
		stays, ends = ends, stays
	}
	select {
	case <-ends.Leaves():
		t.Error("both nodes are to leave at once")
	case <-last.Leaves():
		t.Error("a node of another pack is to leave")
	default:
	}
	stays.Signal(syscall.SIGTERM)
	expectEnd(t, stays, 0)
	<-ends.Leaves()
	ends.Signal(syscall.SIGTERM)
	expectEnd(t, ends, 0)
	await(t, "the old pack ends", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.packs) == 1 && b.packs[0].nodes == 1
	})
	last.Signal(syscall.SIGKILL)
	expectEnd(t, last, pack.ExitKilled)
	if warned := b.warned.String(); warned != "" {
		t.Errorf("an orderly replacement warns: %s", warned)
	}
}

// Claim: Packs give way to others, and gain no privileges. Broken: niceness as it was; no_new_privs not set; root's groups kept.
func TestProcessesGiveWayAndGainNothing(t *testing.T) {
	b := newEnv(t)
	node := b.start(t, "c1/node", "status")
	var log string
	await(t, "the node has said all", func() bool {
		log = node.log.String()
		return strings.Contains(log, ") ")
	})
	fields := strings.Fields(log[strings.LastIndex(log, ")")+1:])
	if nice := fields[19-3]; nice == "0" {
		t.Error("the niceness is 0")
	}
	for _, want := range []string{"NoNewPrivs:\t1\n", "CapEff:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapAmb:\t0000000000000000\n"} {
		if !strings.Contains(log, want) {
			t.Errorf("its status lacks %q: %s", want, log)
		}
	}
	if os.Geteuid() == 0 && (!strings.Contains(log, "Uid:\t65532\t65532\t65532\t65532\n") || !strings.Contains(log, "Groups:\t \n")) {
		t.Errorf("it runs as root: %s", log)
	}
}

// Claim: A node alone that is killed ends at once. Broken: its pack is waited for.
func TestANodeAloneThatHangsIsKilledAtOnce(t *testing.T) {
	b := newEnv(t)
	b.options.KillTimeout = time.Hour
	node := b.start(t, "c1/node", "alone")
	await(t, "it runs", func() bool { return node.place() != "" })
	b.mu.Lock()
	running := b.packs[0]
	b.mu.Unlock()
	_ = running.child.Signal(syscall.SIGSTOP)
	await(t, "the pack is stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", running.child.PID()))
		return err == nil && strings.Contains(string(stat), ") T ")
	})
	node.Signal(syscall.SIGTERM)
	node.Signal(syscall.SIGKILL)
	expectEnd(t, node, pack.ExitKilled)
}

// Claim: A pack that does not answer is killed, and one that refuses its first node ends no other. Broken: the pack of a refused node ended with those that came meanwhile.
func TestARefusedNodeEndsNoOther(t *testing.T) {
	b := newEnv(t)
	var starting sync.WaitGroup
	nodes := make([]started, 6)
	for i := range nodes {
		starting.Go(func() { nodes[i] = b.start(t, fmt.Sprintf("c1/node-%d", i), []string{"alone", "wait"}[i%2]) })
	}
	starting.Wait()
	for i, node := range nodes {
		await(t, "it runs", func() bool { return node.place() != "" })
		if isAlone := strings.HasPrefix(node.place(), "alone "); isAlone != (i%2 == 0) {
			t.Errorf("node %d runs as %q", i, node.place())
		}
	}
	select {
	case <-nodes[1].Done():
		t.Error("a node ended with another that was refused")
	case <-nodes[3].Done():
		t.Error("a node ended with another that was refused")
	case <-nodes[5].Done():
		t.Error("a node ended with another that was refused")
	case <-time.After(200 * time.Millisecond):
	}
	if warned := b.warned.String(); warned != "" {
		t.Errorf("it warns: %s", warned)
	}
}

func TestNothingStartsAfterClose(t *testing.T) {
	b := newEnv(t)
	node := b.start(t, "c1/node", "wait")
	await(t, "it runs", func() bool { return node.place() != "" })
	b.Close()
	expectEnd(t, node, pack.ExitKilled)
	if _, err := b.Start(Spec{Name: "c1/late", Image: b.image, Args: []string{"wait"}, Log: &testlog.Buffer{}}); err == nil {
		t.Error("a node was started")
	}
	if warned := b.warned.String(); warned != "" {
		t.Errorf("the end of the podhost warns: %s", warned)
	}
}
