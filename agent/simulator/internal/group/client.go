package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

const (
	// hostPatience is how long a start waits for a process that is being started again.
	hostPatience = 10 * time.Second
	// signalPatience bounds a request that ends a run.
	signalPatience = 5 * time.Second
	// maxEnds is how often a component may end the process.
	maxEnds = 3
	// problemLimit bounds an error that the process reports.
	problemLimit = 4 << 10
)

// errHostEnded is how all runs end when their process does.
var errHostEnded = errors.New("the process that it shares with other clusters has ended")

// planes is the process with the components, as its supervisor sees it.
type planes struct {
	dir    string
	unit   *process.Unit
	client *http.Client
	// killWait is how long a run may take to end.
	killWait time.Duration

	mutex sync.Mutex
	// ends counts how often a component has ended the process since its cluster came into the group, by CLUSTER/COMPONENT.
	ends map[string]int
}

func newPlanes(dir string, unit *process.Unit, killWait time.Duration) *planes {
	return &planes{dir: dir, unit: unit, killWait: killWait, client: socketClient(filepath.Join(dir, hostSocket)), ends: map[string]int{}}
}

// countEnd counts a component that has ended the process.
func (p *planes) countEnd(component string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.ends[component]++
}

// forgetEnds lets the components of a cluster start again.
func (p *planes) forgetEnds(cluster string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	maps.DeleteFunc(p.ends, func(component string, _ int) bool { return strings.HasPrefix(component, cluster+"/") })
}

// checkEnds refuses a component that ends the process, with all others, again and again.
func (p *planes) checkEnds(component string) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.ends[component] < maxEnds {
		return nil
	}
	return fmt.Errorf("%s has ended the process that it shares with other clusters %d times, and is not started there again: stop its cluster, and start it in processes of its own (without --group) to find out why", component, maxEnds)
}

// Dir is the directory of the group.
func (p *planes) Dir() string { return p.dir }

// KillWait is how long a component may take to end when nothing of it is waited for any more.
func (p *planes) KillWait() time.Duration { return p.killWait }

// Launch starts a component there. It waits for a process that is being started again.
func (p *planes) Launch(ctx context.Context, cluster, component string, args []string, log io.Writer) (controlplane.SharedRun, error) {
	if err := p.checkEnds(cluster + "/" + component); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, hostPatience)
	defer cancel()
	if err := p.unit.WaitHealthy(waiting); err != nil {
		return nil, err
	}
	// The request lasts as long as the run, which ends by a signal.
	body := encode(runRequest{Cluster: cluster, Component: component, Args: args})
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, url("/runs"), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", component, err)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", component, errors.Join(errHostEnded, err))
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, fmt.Errorf("starting %s: %w", component, problemOf(response))
	}
	pid, err := strconv.Atoi(response.Header.Get(pidHeader))
	if err != nil {
		response.Body.Close()
		return nil, fmt.Errorf("starting %s: reading its process id: %w", component, err)
	}
	return &remoteRun{planes: p, response: response, pid: pid, id: response.Header.Get(runHeader), log: log}, nil
}

func problemOf(response *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, problemLimit))
	if err != nil || len(text) == 0 {
		return fmt.Errorf("its process answers %s", response.Status)
	}
	return errors.New(strings.TrimSpace(string(text)))
}

// remoteRun is a run of a component there.
type remoteRun struct {
	planes   *planes
	response *http.Response
	pid      int
	id       string
	log      io.Writer
}

// PID is that of the process, which has others' components too.
func (r *remoteRun) PID() int { return r.pid }

// Wait passes on what the component says until it has ended.
func (r *remoteRun) Wait() error {
	defer r.response.Body.Close()
	if _, err := io.Copy(r.log, r.response.Body); err != nil {
		return errHostEnded
	}
	text := r.response.Trailer.Get(exitTrailer)
	if text == "" {
		return nil
	}
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	return errors.New(text)
}

// Signal ends the run, see plane.Run. One that has ended already is not an error.
func (r *remoteRun) Signal(signal syscall.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), signalPatience)
	defer cancel()
	response, err := r.askRun(ctx, http.MethodPost, "/signals/"+strconv.Itoa(int(signal)))
	if err != nil {
		return nil // Then the process has ended, and the run with it.
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusNotFound {
		return nil
	}
	return problemOf(response)
}

// Healthy returns nil if the component does its job.
func (r *remoteRun) Healthy(ctx context.Context) error {
	response, err := r.askRun(ctx, http.MethodGet, "/health")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return problemOf(response)
	}
	return nil
}

func (r *remoteRun) askRun(ctx context.Context, method, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url("/runs/"+r.id+path), nil)
	if err != nil {
		return nil, fmt.Errorf("asking about the run: %w", err)
	}
	response, err := r.planes.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking about the run: %w", err)
	}
	return response, nil
}

// groupClient is a client of the group in dir. The error wraps ErrNotRunning if there is none.
func groupClient(dir string) (*http.Client, error) {
	socket, err := filepath.Abs(filepath.Join(dir, groupSocket))
	if err != nil {
		return nil, fmt.Errorf("finding --group: %w", err)
	}
	conn, err := net.Dial("unix", socket)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%w: no group runs in %s: start one with \"simcluster group --dir %s\"", controlplane.ErrNotRunning, dir, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the group in %s: %w", dir, err)
	}
	return socketClient(socket), conn.Close()
}
