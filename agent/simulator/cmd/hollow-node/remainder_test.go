package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
)

const (
	// goroutinesLeft and kibibytesLeft are what a node may leave in its process when it has ended. mostNodes of them is what a pack
	// may grow by: 2,500 goroutines and 125 MiB.
	goroutinesLeft = 5.0
	kibibytesLeft  = 256.0
	// slowestLoop is longer than the period of each loop of a kubelet that ends with its next round.
	slowestLoop = 12 * time.Second
)

// packedHere is a node that runs in the process of the test, as in a pack.
type packedHere struct {
	*process
	end  context.CancelFunc
	kill chan struct{}
	done chan int
}

func (p *packedHere) run(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.end, p.kill, p.done = cancel, make(chan struct{}), make(chan int, 1)
	go func() {
		defer log.Close()
		code, err := runPacked(ctx, pack.Order{Args: p.arguments(), Log: log, Kill: p.kill, Started: func() {}})
		if err != nil {
			fmt.Fprintln(log, err)
		}
		p.done <- code
	}()
}

// remainder is what the process has of goroutines, and of memory of heap and stacks in bytes.
type remainder struct{ goroutines, bytes float64 }

// measureRemainder returns what there is when it does not become less any more.
func measureRemainder() remainder {
	for least, since := runtime.NumGoroutine(), time.Now(); time.Since(since) < slowestLoop; <-time.After(100 * time.Millisecond) {
		if n := runtime.NumGoroutine(); n < least {
			least, since = n, time.Now()
		}
	}
	debug.FreeOSMemory()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return remainder{float64(runtime.NumGoroutine()), float64(memory.HeapAlloc + memory.StackInuse)}
}

// Claim: What a node leaves in its pack is bounded, and nothing of it ends another. Broken: a loop of a kubelet outlives its node; a pod source ends with the node that was built when it started.
// Edge case: A kubelet that was killed in its first report ended its pack.
func TestANodeThatHasEndedLeavesLittle(t *testing.T) {
	nodes, removed, rounds := 8, 4, 3
	if !testing.Short() {
		nodes, removed, rounds = 40, 20, 5
	}
	c := realCluster(t)
	all := startPackedHere(t, c, nodes)
	for _, p := range all[:removed] {
		p.create(t, p.pod("on-"+p.name), isReady)
	}
	endAll(all[:removed])
	first := measureRemainder()
	for range rounds {
		began := time.Now()
		for _, p := range all[:removed] {
			p.run(t)
		}
		for _, p := range all[:removed/2] { // The others end while they start.
			eventually(t, p.name+" renews its lease", time.Minute, func(ctx context.Context) error { return p.leaseRenewedAfter(ctx, began) })
		}
		endAll(all[:removed])
	}
	last := measureRemainder()
	removals := float64(rounds * removed)
	goroutines, kibibytes := (last.goroutines-first.goroutines)/removals, (last.bytes-first.bytes)/removals/1024
	t.Logf("%d nodes: %+v; after %g removals: %+v: each leaves %.1f goroutines and %.0f KiB", nodes-removed, first, removals, last, goroutines, kibibytes)
	if goroutines > goroutinesLeft || kibibytes > kibibytesLeft {
		var profile strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
		t.Errorf("each of %g nodes that have ended leaves %.1f goroutines and %.0f KiB, want at most %g and %g; all goroutines:\n%s",
			removals, goroutines, kibibytes, goroutinesLeft, kibibytesLeft, profile.String())
	}
	for _, p := range all[removed:] {
		p.create(t, p.pod("later"), isReady)
		p.disrupt(t, lasting(10*time.Minute, plan.Fault{Type: plan.Condition, Condition: &plan.ConditionParameters{Type: "KernelDeadlock"}}))
	}
	for _, p := range all[removed:] {
		eventually(t, p.name+" reports its Node", time.Minute, p.condition("KernelDeadlock", corev1.ConditionTrue, "(disrupted by outage)"))
	}
	endAll(all[removed:])
}

// startPackedHere starts nodes in the process of the test, all at once, and returns them when they are Ready.
func startPackedHere(t *testing.T, c *cluster, n int) []*packedHere {
	t.Helper()
	var all []*packedHere
	for i := range n {
		p := &packedHere{process: newProcess(t, c, configurationOf(fmt.Sprintf("remains-%d", i)), goodToken)}
		all = append(all, p)
		p.run(t)
	}
	for _, p := range all {
		p.approve(t)
	}
	for _, p := range all {
		p.readyNode(t)
	}
	return all
}

// endAll ends nodes: every second one as if it were killed.
func endAll(all []*packedHere) {
	for i, p := range all {
		if i%2 == 0 {
			close(p.kill)
		} else {
			p.end()
		}
	}
	for _, p := range all {
		<-p.done
		p.end()
	}
}
