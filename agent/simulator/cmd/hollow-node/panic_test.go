package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/packs"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
)

// poison is the name of a pod at which a kubelet panics, in the middle of its own code: when its sync loop tells of the pod.
const poison = "poison"

// poisonedLog is the log of a node that panics.
type poisonedLog struct{ io.Writer }

func (l poisonedLog) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte("SyncLoop ADD")) && bytes.Contains(text, []byte(poison)) {
		panic("a bug of the kubelet")
	}
	return l.Writer.Write(text)
}

// servePoisonedPack is the program hollow-node with such logs.
func servePoisonedPack() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := pack.Serve(ctx, mostNodes, func(ctx context.Context, order pack.Order) (int, error) {
		order.Log = poisonedLog{order.Log}
		return runPacked(ctx, order)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// warnings are what a launcher tells people.
type warnings struct {
	mutex sync.Mutex
	all   []string
}

func (w *warnings) add(reason, message string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.all = append(w.all, reason+" "+message)
}

func (w *warnings) String() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return strings.Join(w.all, "\n")
}

func newLauncher(t *testing.T, told *warnings) *packs.Launcher {
	t.Helper()
	directory, err := poddir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	launcher := packs.New(packs.Options{Directory: directory, Nodes: 25, LogLimit: 8 << 20, Warn: told.add})
	t.Cleanup(func() {
		launcher.Close()
		directory.Close()
	})
	return launcher
}

// startWith starts a node as a podhost does.
func (p *process) startWith(t *testing.T, launcher *packs.Launcher, image string) *packs.Node {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	node, err := launcher.Start(packs.Spec{Name: "c1/" + p.name, Image: image, Args: append(p.arguments(), "--v=2"), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// packProcesses are the processes of packs that this one has started.
func packProcesses(t *testing.T) (pids []string) {
	t.Helper()
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range children {
		content, _ := os.ReadFile(file)
		for _, pid := range strings.Fields(string(content)) {
			if name, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline")); bytes.HasPrefix(name, []byte("hollow-node\x00pack")) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Claim: A kubelet's panic ends its pack and names its node; all come back. Broken: the trace of a kubelet's goroutine has no label.
func TestAKubeletThatPanicsEndsItsPack(t *testing.T) {
	c := realCluster(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	image := t.TempDir()
	if err := os.Symlink(self, filepath.Join(image, "hollow-node")); err != nil {
		t.Fatal(err)
	}
	var told warnings
	launcher := newLauncher(t, &told)
	before := len(packProcesses(t))
	var all []*process
	var running []*packs.Node
	for i := range 3 {
		p := newProcess(t, c, configurationOf(fmt.Sprintf("panics-%d", i)), goodToken)
		all, running = append(all, p), append(running, p.startWith(t, launcher, image))
		p.approve(t)
		p.readyNode(t)
	}
	if n := len(packProcesses(t)) - before; n != 1 {
		t.Fatalf("the nodes run in %d processes", n)
	}
	culprit := all[1]
	pods := c.client.CoreV1().Pods("default")
	pod, err := pods.Create(t.Context(), culprit.pod(poison), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range running {
		select {
		case <-node.Done():
		case <-time.After(time.Minute):
			t.Fatal("the pack does not end")
		}
		if code := node.Exit().Code; code != 2 {
			t.Errorf("a node ended with %d", code)
		}
	}
	want := "It was node c1/" + culprit.name
	eventually(t, "the end of the pack is told", time.Minute, func(context.Context) error {
		if text := told.String(); !strings.Contains(text, "PackEnded") || !strings.Contains(text, want) {
			return fmt.Errorf("want %q, got %q", want, text)
		}
		return nil
	})
	if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		t.Fatal(err)
	}
	ended := time.Now()
	for _, p := range all {
		p.startWith(t, launcher, image)
	}
	for _, p := range all {
		eventually(t, p.name+" renews its lease", time.Minute, func(ctx context.Context) error { return p.leaseRenewedAfter(ctx, ended) })
		p.readyNode(t)
	}
	if n := len(packProcesses(t)) - before; n != 2 {
		t.Errorf("the nodes run in %d processes, want one of %s and one of the others", n, culprit.name)
	}
}
