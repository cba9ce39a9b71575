package hollownode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
)

const (
	// checkPeriod is the time between two checks of the kubelet's sync loop. A round of a healthy one takes a second.
	checkPeriod = 10 * time.Second
	// stuckChecks is how many checks in a row may find the sync loop in the same round.
	stuckChecks = 12
)

// observed is what health needs of a kubelet.
type observed interface {
	LatestLoopEntryTime() time.Time
	GetNode(context.Context) (*corev1.Node, error)
}

// health answers whether the process works and whether its Node is registered. Neither asks the API
// server.
type health struct {
	gate    *fakecri.Gate
	kubelet atomic.Value // observed, once there is a kubelet
	// lastRound is the sync loop's round at the last check, and unchanged counts the checks since it started.
	lastRound time.Time
	unchanged atomic.Int64
}

// checkSyncLoop looks whether the sync loop has gone round since the last check. Before there is a kubelet the
// process waits for its identity, which may take any time. With a runtime that was made to fail the loop
// pauses by design.
//
// Checks are counted, and not the time, because a process that gets no processor time, or was suspended,
// makes no checks: a starved sync loop must not look like a stuck one.
func (h *health) checkSyncLoop() {
	k, ok := h.kubelet.Load().(observed)
	if !ok || h.gate.Failed(runtimeapi.RuntimeReady) {
		h.unchanged.Store(0)
		return
	}
	if round := k.LatestLoopEntryTime(); !round.Equal(h.lastRound) {
		h.lastRound = round
		h.unchanged.Store(0)
		return
	}
	h.unchanged.Add(1)
}

// checkAlive is nil while the sync loop goes round.
func (h *health) checkAlive() error {
	if h.gate.Failed(runtimeapi.RuntimeReady) {
		return nil
	}
	if n := h.unchanged.Load(); n > stuckChecks {
		return fmt.Errorf("the kubelet's sync loop has not gone round in %d checks, one every %s", n, checkPeriod)
	}
	return nil
}

// checkReady is nil once the Node is registered.
func (h *health) checkReady(ctx context.Context) error {
	k, ok := h.kubelet.Load().(observed)
	if !ok {
		return errors.New("waiting for the node's certificate")
	}
	if _, err := k.GetNode(ctx); err != nil {
		return fmt.Errorf("the node is not registered: %w", err)
	}
	return nil
}

// useKubelet observes a kubelet that is about to run.
func (h *health) useKubelet(k observed) { h.kubelet.Store(k) }

// serveHealth answers /healthz, /readyz and /disruptions until stop is called, which returns when the port is free. It returns when it listens.
func (h *health) serveHealth(options Options, disruptions http.HandlerFunc) (stop func(), err error) {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, h.checkAlive()) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) { writeAnswer(w, h.checkReady(r.Context())) })
	mux.HandleFunc("/disruptions", disruptions)
	if options.Profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(options.BindAddress, strconv.Itoa(options.HealthPort)))
	if err != nil {
		return nil, fmt.Errorf("serving health: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	return func() {
		_ = server.Close()
		_ = listener.Close() // The server may not have it yet.
	}, nil
}

func writeAnswer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}
