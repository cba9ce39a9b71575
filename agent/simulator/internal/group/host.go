package group

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/idle"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/plane"
)

const (
	// HostComponent is the first argument of the process that has the components of control planes.
	HostComponent = "planes"
	// PodhostsComponent is that of the process that has the podhosts.
	PodhostsComponent = "podhosts"
)

// headerPatience bounds how long a request's header may take.
const headerPatience = 10 * time.Second

// host is the process that has the components.
type host struct {
	runs sync.Map
	last atomic.Int64
}

// RunHost runs components of a group in this process until SIGTERM: podhosts, or those of control planes. Its supervisor starts it.
func RunHost(component string, args []string) error {
	flags := pflag.NewFlagSet(component, pflag.ContinueOnError)
	dir := flags.String("dir", "", "directory of the group")
	minor := flags.String("emulated-version", "", "Kubernetes minor to emulate")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := plane.Setup(*minor); err != nil {
		return err
	}
	socket := component + socketSuffix
	if err := os.Remove(filepath.Join(*dir, socket)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("serving the group: %w", err)
	}
	listener, err := listenSocket(*dir, socket)
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		growth := idle.OfGroup
		if component == PodhostsComponent {
			growth = idle.OfPodhost
		}
		idle.FollowAllocation(growth)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	server := &http.Server{Handler: (&host{}).newHandler(), ReadHeaderTimeout: headerPatience}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the group: %w", err)
	}
	return nil
}

func (h *host) newHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /runs", h.handleRun)
	mux.HandleFunc("GET /runs/{run}/health", h.handleHealth)
	mux.HandleFunc("POST /runs/{run}/signals/{signal}", h.handleSignal)
	return mux
}

// handleRun runs a component for as long as the answer lasts. Its body is what the component says.
func (h *host) handleRun(writer http.ResponseWriter, request *http.Request) {
	var asked runRequest
	if err := json.NewDecoder(request.Body).Decode(&asked); err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	log := &runLog{writer: writer, controller: http.NewResponseController(writer)}
	defer log.closeLog()
	run, err := plane.Start(plane.Component{Cluster: asked.Cluster, Name: asked.Component, Args: asked.Args, Log: log}) //nolint:contextcheck // It ends by a signal.
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	id := strconv.FormatInt(h.last.Add(1), 10)
	h.runs.Store(id, run)
	defer h.runs.Delete(id)
	log.openAnswer(func() {
		writer.Header().Set("Trailer", exitTrailer)
		writer.Header().Set(pidHeader, strconv.Itoa(run.PID()))
		writer.Header().Set(runHeader, id)
		writer.WriteHeader(http.StatusOK)
	})
	stop := context.AfterFunc(request.Context(), func() { _ = run.Signal(syscall.SIGTERM) })
	defer stop()
	if err := run.Wait(); err != nil {
		log.closeLog()
		writer.Header().Set(exitTrailer, strconv.Quote(err.Error()))
	}
}

func (h *host) findRun(writer http.ResponseWriter, request *http.Request) *plane.Run {
	if run, ok := h.runs.Load(request.PathValue("run")); ok {
		return run.(*plane.Run) //nolint:forcetypeassert // Nothing else is stored there.
	}
	http.Error(writer, "it has ended", http.StatusNotFound)
	return nil
}

func (h *host) handleHealth(writer http.ResponseWriter, request *http.Request) {
	if run := h.findRun(writer, request); run != nil {
		if err := run.Healthy(request.Context()); err != nil {
			http.Error(writer, err.Error(), http.StatusServiceUnavailable)
		}
	}
}

func (h *host) handleSignal(writer http.ResponseWriter, request *http.Request) {
	run := h.findRun(writer, request)
	if run == nil {
		return
	}
	number, err := strconv.Atoi(request.PathValue("signal"))
	if err == nil {
		err = run.Signal(syscall.Signal(number))
	}
	if err != nil {
		http.Error(writer, err.Error(), http.StatusConflict)
	}
}

// runLog passes on what a component says until its run has ended. What goroutines that stay say later is dropped, and what is said
// before the answer has started waits for that.
type runLog struct {
	mutex      sync.Mutex
	writer     http.ResponseWriter
	controller *http.ResponseController
	started    bool
	closed     bool
	early      []byte
}

func (l *runLog) Write(content []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	switch {
	case l.closed:
	case !l.started:
		l.early = append(l.early, content...)
	default:
		l.passOn(content)
	}
	return len(content), nil
}

// passOn ignores errors: the supervisor is gone, and this process ends with it.
func (l *runLog) passOn(content []byte) {
	_, _ = l.writer.Write(content)
	_ = l.controller.Flush()
}

func (l *runLog) openAnswer(header func()) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	header()
	l.started = true
	l.passOn(l.early)
	l.early = nil
}

func (l *runLog) closeLog() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.closed = true
}
