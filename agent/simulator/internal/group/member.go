package group

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/plane"
)

// handleStart starts a cluster. Until it is ready it ends with the one who asked for it; from then on with its own stop or the
// group's.
func (g *group) handleStart(groupCtx context.Context, writer http.ResponseWriter, request *http.Request) {
	var asked startRequest
	if err := json.NewDecoder(request.Body).Decode(&asked); err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	answer := &startStream{encoder: json.NewEncoder(writer), controller: http.NewResponseController(writer)}
	options := asked.Options
	if err := g.admitCluster(options); err != nil {
		answer.fail(err)
		return
	}
	for _, process := range g.listProcesses() {
		process.forgetEnds(options.Name)
	}
	if len(options.Components) == 0 || slices.Contains(options.Components, controlplane.Podhost) {
		g.podhosts.unit.Start() // It starts while the control plane does.
	}
	ctx, cancel := context.WithCancel(groupCtx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	options.Shared, options.Executable, options.ChildArg, options.Version = g, g.options.Executable, g.options.ChildArg, g.options.Version
	options.Ready = func() { close(ready) }
	options.Progress = &memberProgress{answer: answer, group: g, name: options.Name}
	go func() {
		defer g.dismissCluster(options.DataDir)
		defer cancel()
		err := controlplane.Run(ctx, options)
		ended <- err
		if err != nil {
			g.printStep("%s: %v", options.DataDir, err)
		}
	}()
	select {
	case <-ready:
		g.noteChange()
		answer.finish(startAnswer{Ready: true})
	case err := <-ended:
		answer.fail(err)
	case <-request.Context().Done():
		cancel()
		answer.fail(<-ended)
	}
}

// admitCluster takes a cluster into the group, or says why not.
func (g *group) admitCluster(options controlplane.Options) error {
	if err := options.Validate(); err != nil {
		return err
	}
	if err := g.checkFit(options); err != nil {
		return err
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	taken := slices.IndexFunc(g.clusters, func(m member) bool { return m.name == options.Name && m.dataDir != options.DataDir })
	switch {
	case taken >= 0:
		return fmt.Errorf("%w: --name: the group in %s has a cluster %s already, in %s: choose another name or another group", controlplane.ErrInvalid, g.dir, options.Name, g.clusters[taken].dataDir)
	case g.ending:
		return fmt.Errorf("%w: the group in %s is ending", controlplane.ErrNotRunning, g.dir)
	case len(g.clusters) >= MaxClusters:
		return fmt.Errorf("%w: the group in %s has %d clusters, and no more have room: start another one with \"simcluster group --dir OTHER\"", controlplane.ErrInvalid, g.dir, len(g.clusters))
	}
	g.clusters = append(g.clusters, member{options.DataDir, options.Name})
	g.running.Add(1)
	return nil
}

// checkFit refuses a cluster that needs another process than this group's.
func (g *group) checkFit(options controlplane.Options) error {
	if minor := cmp.Or(options.EmulatedVersion, plane.Minor()); minor != g.options.EmulatedVersion {
		return fmt.Errorf("%w: the group in %s emulates Kubernetes %s, not %s: start another one with \"simcluster group --emulated-version %s --dir OTHER\", or start the cluster without --group",
			controlplane.ErrInvalid, g.dir, g.options.EmulatedVersion, minor, minor)
	}
	for component, args := range options.ExtraArgs {
		if component == controlplane.Etcd || component == controlplane.Podhost {
			continue
		}
		for _, arg := range args {
			if plane.IsProcessFlag(arg) {
				return fmt.Errorf("%w: flag %q of %s is one of the whole process, which other clusters share: start the cluster without --group", controlplane.ErrInvalid, arg, component)
			}
		}
	}
	return nil
}

// dismissCluster lets another cluster have the place.
func (g *group) dismissCluster(dataDir string) {
	g.mutex.Lock()
	if at := slices.IndexFunc(g.clusters, func(m member) bool { return m.dataDir == dataDir }); at >= 0 {
		g.clusters = slices.Delete(g.clusters, at, at+1)
	}
	g.mutex.Unlock()
	g.noteChange()
	g.running.Done()
}

// startStream is the answer to a start. It is open until the cluster is ready.
type startStream struct {
	mutex      sync.Mutex
	encoder    *json.Encoder
	controller *http.ResponseController
	done       bool
}

// send reports whether the answer is still open. Errors are those of a client that has gone.
func (s *startStream) send(answer startAnswer) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.done {
		return false
	}
	_ = s.encoder.Encode(answer)
	_ = s.controller.Flush()
	return true
}

func (s *startStream) finish(answer startAnswer) {
	s.send(answer)
	s.mutex.Lock()
	s.done = true
	s.mutex.Unlock()
}

func (s *startStream) fail(err error) {
	if err == nil {
		err = errors.New("it was stopped while it started")
	}
	s.finish(startAnswer{Error: err.Error(), Kind: kindOf(err)})
}

// memberProgress takes a cluster's lines: they are the starter's until the cluster is ready, and then the group's.
type memberProgress struct {
	answer *startStream
	group  *group
	name   string
}

func (p *memberProgress) Write(content []byte) (int, error) {
	line := strings.TrimSuffix(string(content), "\n")
	if !p.answer.send(startAnswer{Line: line}) {
		p.group.printStep("%s: %s", p.name, line)
	}
	return len(content), nil
}

// StartCluster starts a cluster in the group in dir and returns when it is ready. Lines of progress go to options.Progress. The cluster
// does not become ready, and ends, if the context ends before.
func StartCluster(ctx context.Context, dir string, options controlplane.Options) error {
	response, err := askGroup(ctx, dir, http.MethodPost, "/clusters", bytes.NewReader(encode(startRequest{Options: options})))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var answer startAnswer
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			return fmt.Errorf("reading the group's answer: %w", err)
		}
		switch {
		case answer.Ready:
			return nil
		case answer.Error != "":
			return answer.failure()
		}
		fmt.Fprintln(options.Progress, answer.Line)
	}
	if ctx.Err() != nil {
		return controlplane.WaitStopped(context.WithoutCancel(ctx), options.DataDir)
	}
	return fmt.Errorf("%w: the group in %s has ended", controlplane.ErrNotReady, dir)
}

// FetchStatus asks the group that runs in dir. The error wraps ErrNotRunning if none does.
func FetchStatus(ctx context.Context, dir string) (Status, error) {
	var status Status
	response, err := askGroup(ctx, dir, http.MethodGet, "/status", http.NoBody)
	if err != nil {
		return status, err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		return status, fmt.Errorf("reading the group's answer: %w", err)
	}
	return status, nil
}

func askGroup(ctx context.Context, dir, method, path string, body io.Reader) (*http.Response, error) {
	client, err := groupClient(dir)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, url(path), body)
	if err != nil {
		return nil, fmt.Errorf("asking the group: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the group in %s, which may be starting or ending: %w", dir, err)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, fmt.Errorf("asking the group in %s: %w", dir, problemOf(response))
	}
	return response, nil
}
