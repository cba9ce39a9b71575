package group

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/plane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

const (
	// hostPatience is how long a start waits for a process that is being started again.
	hostPatience = 10 * time.Second
	// maxEnds is how often a component may end the process.
	maxEnds = 3
	// traceLines of the log are searched for the goroutine that has panicked: its trace comes first.
	traceLines = 400
)

// sharedProcess is one of the group's two processes with components, as their supervisor sees it.
type sharedProcess struct {
	group *group
	// title names it, and content what all clusters have in it.
	title, content string
	log            *process.LogFile
	unit           *process.Unit
	client         *http.Client
	liveness       *liveness

	mutex sync.Mutex
	// ends counts how often a component has ended the process since its cluster came into the group, by CLUSTER/COMPONENT.
	ends map[string]int
	// told is the last end of the process that was told.
	told string
}

// newSharedProcess returns the process that runs this component of this program. It starts with its unit.
func (g *group) newSharedProcess(spawner *process.Spawner, component, title, content string) (*sharedProcess, error) {
	p := &sharedProcess{group: g, title: title, content: content, client: socketClient(filepath.Join(g.dir, component+socketSuffix)), ends: map[string]int{}}
	var err error
	if p.log, err = process.OpenLog(filepath.Join(g.dir, component+logSuffix), logLimit); err != nil {
		return nil, err
	}
	p.unit = process.NewUnit(process.Options{
		Name: title,
		Launch: func(context.Context) (process.Instance, error) {
			return spawner.Start(process.Command{
				Path:   g.options.Executable,
				Args:   []string{g.options.ChildArg, component, "--dir", g.dir, "--emulated-version", g.options.EmulatedVersion},
				Env:    os.Environ(),
				Dir:    g.dir,
				Output: p.log,
			})
		},
		Healthy:  func(ctx context.Context) error { return checkHost(ctx, p.client) },
		OnChange: g.noteChange,
		Grace:    hostGrace,
	})
	p.liveness = newLiveness(p, cmp.Or(g.options.CheckEvery, checkEvery))
	return p, nil
}

// run keeps the process running while its unit is wanted, until the context ends.
func (p *sharedProcess) run(ctx context.Context, loops *sync.WaitGroup) {
	loops.Go(func() { p.unit.Run(ctx) })
	loops.Go(func() { p.liveness.watchProcess(ctx) })
}

// readStatus returns what is known of the process.
func (p *sharedProcess) readStatus() ProcessStatus {
	return ProcessStatus{Status: p.unit.Status(), Unanswered: p.liveness.countUnanswered(), Log: p.log.Path()}
}

// tellEnd tells of a process that has ended by itself, once, and which of the clusters it hit.
func (p *sharedProcess) tellEnd(clusters []string) {
	status := p.unit.Status()
	if status.State != process.StateWaiting || status.LastExit == p.told {
		return
	}
	p.told = status.LastExit
	p.group.printStep("%s has ended (%s)%s, and starts again with the %s of %d clusters (%s); its log is %s",
		p.title, p.told, p.findCulprit(), p.content, len(clusters), strings.Join(clusters, ", "), p.log.Path())
}

// findCulprit names the component that has ended the process, if the log says.
func (p *sharedProcess) findCulprit() string {
	if component := plane.FailedComponent(p.log.Tail(traceLines)); component != "" {
		p.countEnd(component)
		return " because of " + component
	}
	return ""
}

// countEnd counts a component that has ended the process.
func (p *sharedProcess) countEnd(component string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.ends[component]++
}

// forgetEnds lets the components of a cluster start again.
func (p *sharedProcess) forgetEnds(cluster string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	maps.DeleteFunc(p.ends, func(component string, _ int) bool { return strings.HasPrefix(component, cluster+"/") })
}

// checkEnds refuses a component that ends the process, with all others, again and again.
func (p *sharedProcess) checkEnds(component string) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.ends[component] < maxEnds {
		return nil
	}
	return fmt.Errorf("%s has ended the process that it shares with other clusters %d times, and is not started there again: stop its cluster, and start it in processes of its own (without --group) to find out why", component, maxEnds)
}

// launchComponent starts a component there. It waits for a process that is being started again.
func (p *sharedProcess) launchComponent(ctx context.Context, cluster, component string, args []string, log io.Writer) (controlplane.SharedRun, error) {
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
	return &remoteRun{process: p, response: response, pid: pid, id: response.Header.Get(runHeader), log: log}, nil
}
