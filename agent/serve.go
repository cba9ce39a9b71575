package agent

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/hollowfleet/hollowfleet/internal/serving"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

const shutdownTimeout = 5 * time.Second

// server is one HTTP server at host:port; an empty address or telemetry.NoAddress means that it is not run.
type server struct {
	name, address string
	handler       http.Handler
	// tls: it is served with the certificate, if there is one.
	tls bool
}

// openPorts opens the ports of servers, which serve once they are started. A port that cannot be had is an error at once.
func openPorts(log logr.Logger, certificate *serving.Certificate, servers ...server) ([]*manager.Server, error) {
	var open []*manager.Server
	for _, s := range servers {
		if s.address == "" || s.address == telemetry.NoAddress {
			continue
		}
		listener, err := net.Listen("tcp", s.address)
		if err != nil {
			for _, other := range open {
				_ = other.Listener.Close()
			}
			return nil, fmt.Errorf("opening the port of the %s server: %w", s.name, err)
		}
		log.Info("Listening", "server", s.name, "address", listener.Addr().String(), "tls", s.tls && certificate != nil)
		if s.tls {
			listener = certificate.Wrap(listener)
		}
		open = append(open, &manager.Server{
			Name: s.name, Listener: listener, ShutdownTimeout: ptr.To(shutdownTimeout),
			Server: &http.Server{Handler: s.handler, ReadHeaderTimeout: shutdownTimeout, ErrorLog: serving.ErrorLog(log)},
		})
	}
	return open, nil
}

// metricsHandler returns the handler of /metrics.
func metricsHandler(gatherers ...prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(prometheus.Gatherers(gatherers), promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	return mux
}

// profilingHandler returns the handler of /debug/pprof/.
func profilingHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// healthHandler returns the handler of /healthz, /readyz and /frozenz. An agent that serves is ready: a frozen one, or
// one that waits for the hub, is doing its job and must not be restarted for it. describe says what it is doing. An
// error of check makes it not ready, which restarts nothing.
func healthHandler(frozen http.Handler, describe func() string, check func(*http.Request) error) http.Handler {
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
