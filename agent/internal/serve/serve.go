// Package serve runs the agent's HTTP servers: health, metrics and profiling.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const shutdownTimeout = 5 * time.Second

// Server is one HTTP server.
type Server struct {
	// Name for the log.
	Name string
	// Address is host:port; empty or "0" means that the server is not run.
	Address string
	Handler http.Handler
}

// Listen opens the ports of servers and returns a function that serves until its context ends. A port that
// cannot be had is an error at once.
func Listen(log logr.Logger, servers ...Server) (serve func(ctx context.Context) error, err error) {
	var open []listening
	for _, server := range servers {
		if server.Address == "" || server.Address == "0" {
			continue
		}
		listener, err := net.Listen("tcp", server.Address)
		if err != nil {
			for _, other := range open {
				_ = other.listener.Close()
			}
			return nil, fmt.Errorf("opening the port of the %s server: %w", server.Name, err)
		}
		log.Info("Listening", "server", server.Name, "address", listener.Addr().String())
		open = append(open, listening{listener: listener, server: &http.Server{Handler: server.Handler, ReadHeaderTimeout: shutdownTimeout}})
	}
	return func(ctx context.Context) error { return serveAll(ctx, open) }, nil
}

type listening struct {
	listener net.Listener
	server   *http.Server
}

func serveAll(ctx context.Context, open []listening) error {
	failed := make(chan error, len(open))
	for _, one := range open {
		go func() { failed <- one.server.Serve(one.listener) }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	for _, one := range open {
		_ = one.server.Shutdown(shutdown)
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving HTTP: %w", err)
	}
	return nil
}

// Metrics returns the handler of /metrics.
func Metrics(gatherers ...prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(prometheus.Gatherers(gatherers), promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	return mux
}

// Profiling returns the handler of /debug/pprof/.
func Profiling() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// Health returns the handler of /healthz, /readyz and /frozenz. An agent that serves is ready: a frozen one, or
// one that waits for the hub, is doing its job and must not be restarted for it. describe says what it is doing. An
// error of check makes it not ready, which restarts nothing.
func Health(frozen http.Handler, describe func() string, check func(*http.Request) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := check(r); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintf(w, "ok: %s\n", describe())
	})
	mux.Handle("/frozenz", frozen)
	return mux
}
