package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

// Action is what can be done to a component of a running cluster.
type Action string

const (
	// ActionStart starts a stopped component and waits until it is healthy.
	ActionStart Action = "start"
	// ActionStop ends a component, which then stays down until it is started.
	ActionStop Action = "stop"
	// ActionKill ends a component at once; it is restarted like after a crash.
	ActionKill Action = "kill"
	// ActionPause suspends a component's process.
	ActionPause Action = "pause"
	// ActionResume lets a paused component continue.
	ActionResume Action = "resume"
)

// actionTimeout bounds one action.
const actionTimeout = time.Minute

// controlServer answers on the cluster's control socket.
type controlServer struct {
	server   *http.Server
	finished chan struct{}
}

// serveControl serves on a socket in the run directory, which only the owner
// can enter.
func (s *supervisor) serveControl() (*controlServer, error) {
	listener, err := net.Listen("unix", filepath.Join(s.runDir, controlSocket))
	if err != nil {
		return nil, fmt.Errorf("serving the control socket: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", s.handleStatus)
	mux.HandleFunc("POST /stop", s.handleStop)
	mux.HandleFunc("POST /upgrade", s.handleUpgrade)
	mux.HandleFunc("POST /components/{name}/{action}", s.handleAction)
	control := &controlServer{
		server:   &http.Server{Handler: mux, ReadHeaderTimeout: healthTimeout},
		finished: make(chan struct{}),
	}
	go func() {
		defer close(control.finished)
		_ = control.server.Serve(listener)
	}()
	return control, nil
}

// closeSocket ends the socket and the actions that are under way.
func (c *controlServer) closeSocket() {
	c.server.Close()
	<-c.finished
}

func (s *supervisor) handleStatus(writer http.ResponseWriter, request *http.Request) {
	writeResponse(writer, http.StatusOK, s.clusterStatus(request.Context()))
}

// handleStop starts to stop a cluster whose process is not its own. The client has the answer before the socket closes, and waits for the
// cluster's lock.
func (s *supervisor) handleStop(writer http.ResponseWriter, _ *http.Request) {
	writeResponse(writer, http.StatusOK, struct{}{})
	_ = http.NewResponseController(writer).Flush()
	s.options.stop()
}

func (s *supervisor) handleAction(writer http.ResponseWriter, request *http.Request) {
	name, action := request.PathValue("name"), Action(request.PathValue("action"))
	unit, ok := s.units[name]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(s.units)), ", ")
		writeResponse(writer, http.StatusNotFound, failure{Error: fmt.Sprintf("this cluster has no component %q, it has %s", name, known)})
		return
	}
	if err := s.options.checkAction(name, action); err != nil {
		writeResponse(writer, http.StatusConflict, failure{Error: err.Error()})
		return
	}
	ctx, cancel := context.WithTimeout(request.Context(), actionTimeout)
	defer cancel()
	if err := act(ctx, unit, action); err != nil {
		writeResponse(writer, http.StatusConflict, failure{Error: err.Error()})
		return
	}
	writeResponse(writer, http.StatusOK, unit.Status())
}

func act(ctx context.Context, unit *process.Unit, action Action) error {
	switch action {
	case ActionStart:
		unit.Start()
		return unit.WaitHealthy(ctx)
	case ActionStop:
		return unit.Stop(ctx)
	case ActionKill:
		return unit.Kill(ctx)
	case ActionPause:
		return unit.Pause()
	case ActionResume:
		return unit.Resume()
	default:
		return fmt.Errorf("there is no action %q", action)
	}
}

// clusterStatus looks at the health of all components at once.
func (s *supervisor) clusterStatus(ctx context.Context) Status {
	status := Status{
		Name: s.cluster.Name, DataDir: s.layout.Root(), Server: s.cluster.serverURL(), Version: s.options.Version,
		SupervisorPID: os.Getpid(), Isolation: s.options.isolationMode(), Group: s.options.groupDir(), Started: s.started.Load(), Components: map[string]ComponentStatus{},
	}
	var checks sync.WaitGroup
	var mutex sync.Mutex
	for name, unit := range s.units {
		checks.Go(func() {
			component := ComponentStatus{Status: unit.Status(), HealthURL: s.urls[name], Log: s.layout.LogFile(name), EmulatedVersion: s.emulatedMinor(name)}
			if err := s.checks[name](ctx); err != nil {
				component.Message = err.Error()
			}
			if problem := describeWaiting(component.Status); problem != "" {
				component.Message = problem
			}
			component.Healthy = component.Message == "" && component.State == process.StateRunning
			mutex.Lock()
			defer mutex.Unlock()
			status.Components[name] = component
		})
	}
	checks.Wait()
	status.Healthy = status.Started
	for _, component := range status.Components {
		status.Healthy = status.Healthy && component.Healthy
	}
	return status
}

// failure is the answer to a request that could not be fulfilled.
type failure struct {
	Error string `json:"error"`
}

func writeResponse(writer http.ResponseWriter, code int, body any) {
	writer.Header().Set("Content-Type", "application/json")
	writer.WriteHeader(code)
	// A client that has gone away is not worth a word.
	_ = json.NewEncoder(writer).Encode(body)
}

// FetchStatus asks the cluster that runs on the data directory. The error
// wraps ErrNotRunning if none does.
func FetchStatus(ctx context.Context, dataDir string) (Status, error) {
	var status Status
	err := callControl(ctx, dataDir, http.MethodGet, "/status", nil, &status)
	return status, err
}

// Do does something to a component of the cluster that runs on the data
// directory and returns the component's new status. The error wraps
// ErrNotRunning if no cluster runs.
func Do(ctx context.Context, dataDir, component string, action Action) (process.Status, error) {
	var status process.Status
	err := callControl(ctx, dataDir, http.MethodPost, "/components/"+component+"/"+string(action), nil, &status)
	return status, err
}

func callControl(ctx context.Context, dataDir, method, path string, body, into any) error {
	layout, err := NewLayout(dataDir)
	if err != nil {
		return err
	}
	running, err := findHolder(ctx, layout.lockFile())
	if err != nil {
		return err
	}
	runDir, err := layout.findRunDir()
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(runDir, controlSocket))
		},
	}}
	content, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding a request to the supervisor: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://simcluster"+path, bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("asking the supervisor: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking the supervisor, process %d, which may be starting or stopping: %w", running.PID, err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		if err := json.NewDecoder(response.Body).Decode(into); err != nil {
			return fmt.Errorf("reading the supervisor's answer: %w", err)
		}
		return nil
	}
	var problem failure
	if err := json.NewDecoder(response.Body).Decode(&problem); err != nil || problem.Error == "" {
		return fmt.Errorf("the supervisor answers %s", response.Status)
	}
	return errors.New(problem.Error)
}
