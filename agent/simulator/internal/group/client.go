package group

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
)

const (
	// signalPatience bounds a request that ends a run.
	signalPatience = 5 * time.Second
	// problemLimit bounds an error that the process reports.
	problemLimit = 4 << 10
)

// errHostEnded is how all runs end when their process does.
var errHostEnded = errors.New("the process that it shares with other clusters has ended")

func problemOf(response *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, problemLimit))
	if err != nil || len(text) == 0 {
		return fmt.Errorf("its process answers %s", response.Status)
	}
	return errors.New(strings.TrimSpace(string(text)))
}

// remoteRun is a run of a component there.
type remoteRun struct {
	process  *sharedProcess
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
	response, err := r.process.client.Do(request)
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
