package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/internal/serving"
)

func body(t *testing.T, handler http.Handler, path string) (int, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	return recorder.Code, recorder.Body.String()
}

func TestHandlers(t *testing.T) {
	frozen := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "frozen since") })
	fine := func(*http.Request) error { return nil }
	health := healthHandler(frozen, func() string { return "waiting" }, fine)
	unready := healthHandler(frozen, func() string { return "waiting" }, func(*http.Request) error { return errors.New("a Machine is broken") })
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "x_total", Help: "x"})
	registry.MustRegister(counter)
	tests := map[string]struct {
		handler http.Handler
		path    string
		code    int
		says    string
	}{
		"alive":          {health, "/healthz", http.StatusOK, "ok"},
		"ready":          {health, "/readyz", http.StatusOK, "ok: waiting"},
		"not ready":      {unready, "/readyz", http.StatusServiceUnavailable, "a Machine is broken"},
		"alive and not":  {unready, "/healthz", http.StatusOK, "ok"},
		"the freeze":     {health, "/frozenz", http.StatusOK, "frozen since"},
		"nothing else":   {health, "/metrics", http.StatusNotFound, ""},
		"metrics":        {metricsHandler(registry, prometheus.NewRegistry()), "/metrics", http.StatusOK, "x_total 0"},
		"profiling":      {profilingHandler(), "/debug/pprof/", http.StatusOK, "goroutine"},
		"a stack of all": {profilingHandler(), "/debug/pprof/goroutine?debug=1", http.StatusOK, "TestHandlers"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, text := body(t, test.handler, test.path)
			if code != test.code || !strings.Contains(text, test.says) {
				t.Errorf("%s: %d %q, want %d with %q", test.path, code, text, test.code, test.says)
			}
		})
	}
}

func TestListen(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	t.Run("should say at once that a port is taken", func(t *testing.T) {
		if _, err := openPorts(logr.Discard(), nil, server{name: "health", address: address}); err == nil || !strings.Contains(err.Error(), "health") {
			t.Errorf("listen = %v", err)
		}
	})
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("should serve until its context ends, and skip what has no address", func(t *testing.T) {
		handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
		open, err := openPorts(logr.Discard(), nil, server{name: "a", address: address, handler: handler}, server{name: "b", address: "0"}, server{name: "c"})
		if err != nil {
			t.Fatal(err)
		}
		if len(open) != 1 {
			t.Fatalf("got %d servers, want one", len(open))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- open[0].Start(ctx) }()
		response, err := http.Get("http://" + address) //nolint:noctx // a test's own server on loopback
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if string(text) != "hello" {
			t.Errorf("got %q", text)
		}
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Start = %v", err)
			}
		case <-time.After(shutdownTimeout):
			t.Error("the server does not stop")
		}
	})
	t.Run("should serve with the certificate what is to have TLS, and nothing else", func(t *testing.T) {
		certificate, err := serving.NewCertificate(serving.Options{SelfSigned: true}, clock.RealClock{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, r.TLS != nil) })
		open, err := openPorts(logr.Discard(), certificate,
			server{name: "a", address: "127.0.0.1:0", handler: handler, tls: true}, server{name: "b", address: "127.0.0.1:0", handler: handler})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}}
		for i, url := range []string{"https://", "http://"} {
			go func() { _ = open[i].Start(t.Context()) }()
			response, err := client.Get(url + open[i].Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if want := fmt.Sprint(i == 0); string(text) != want {
				t.Errorf("%s: TLS is %s, want %s", url, text, want)
			}
		}
	})
}
