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

// syncLoopPatience is how old the last round of the sync loop may be. A healthy one takes a second.
const syncLoopPatience = 2 * time.Minute

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
	since   time.Time
	now     func() time.Time
}

// alive is nil while the sync loop goes round. Before there is a kubelet the process waits for its
// identity, which may take any time. With a runtime that was made to fail the loop pauses by design.
func (h *health) alive() error {
	k, ok := h.kubelet.Load().(observed)
	if !ok || h.gate.Failed(runtimeapi.RuntimeReady) {
		return nil
	}
	last := k.LatestLoopEntryTime()
	if last.Before(h.since) {
		last = h.since
	}
	if age := h.now().Sub(last); age > syncLoopPatience {
		return fmt.Errorf("the kubelet's sync loop has not gone round for %s", age.Round(time.Second))
	}
	return nil
}

// ready is nil once the Node is registered.
func (h *health) ready(ctx context.Context) error {
	k, ok := h.kubelet.Load().(observed)
	if !ok {
		return errors.New("waiting for the node's certificate")
	}
	if _, err := k.GetNode(ctx); err != nil {
		return fmt.Errorf("the node is not registered: %w", err)
	}
	return nil
}

// watch starts observing a kubelet that is about to run.
func (h *health) watch(k observed) {
	h.since = h.now()
	h.kubelet.Store(k)
}

// serve answers /healthz and /readyz until ctx ends. It returns when it listens.
func (h *health) serve(ctx context.Context, options Options) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, h.alive()) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) { answer(w, h.ready(r.Context())) })
	if options.Profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(options.BindAddress, strconv.Itoa(options.HealthPort)))
	if err != nil {
		return fmt.Errorf("serving health: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }()
	return nil
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}
