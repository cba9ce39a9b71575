package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hollowfleet/hollowfleet/internal/owneddir"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/atomicfile"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/plane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

const (
	// MaxClusters bounds a group, so that what ends its process hits no more of them.
	MaxClusters = 10

	dirKind = "simcluster-group"
	// logLimit bounds the log of the process, of which there are two generations.
	logLimit  = 16 << 20
	hostGrace = 5 * time.Second
	// clustersGrace is more than a stop of all clusters takes, and less than those who end a group wait.
	clustersGrace = 45 * time.Second
	// killWait suits a starved machine.
	killWait   = 30 * time.Second
	statusMode = 0o600
)

// Options say what group to run. Dir, Executable and ChildArg are needed.
type Options struct {
	// Dir is the group's directory, which is for this user only.
	Dir string
	// EmulatedVersion is the Kubernetes minor of all clusters, such as 1.36. Empty means that of the code.
	EmulatedVersion string
	// ExitWithParent ends the group when the process ParentPID ends, or with 0 the one that started this.
	ExitWithParent bool
	ParentPID      int
	// Executable is run for the process with the components, as: Executable ChildArg planes flags…
	Executable string
	ChildArg   string
	// Version is that of the components.
	Version string
	// CheckEvery is the time between two checks whether the process answers, default 5 seconds.
	CheckEvery time.Duration
	// KillWait is how long a component may take to end once nothing of it is waited for any more, default 30 seconds.
	KillWait time.Duration
	// Progress gets one line for each step.
	Progress io.Writer
}

// Status is what is known of a group.
type Status struct {
	Dir           string `json:"dir"`
	SupervisorPID int    `json:"supervisorPID"`
	// EmulatedVersion is the Kubernetes minor of all clusters.
	EmulatedVersion string `json:"emulatedVersion"`
	// Clusters are the data directories of the clusters, in the order of their starts.
	Clusters    []string `json:"clusters"`
	MaxClusters int      `json:"maxClusters"`
	// Process has the control planes of all of them.
	Process process.Status `json:"process"`
	// Unanswered is how many checks in a row the process has not answered. At MaxUnanswered it is killed, and starts again.
	Unanswered int `json:"unanswered,omitempty"`
	// Log is that of the process. A trace of a panic is there.
	Log string `json:"log"`
	// Podhosts has their podhosts. It starts with the first one.
	Podhosts ProcessStatus `json:"podhosts"`
}

// ProcessStatus is what is known of a process that clusters share.
type ProcessStatus struct {
	process.Status
	Unanswered int    `json:"unanswered,omitempty"`
	Log        string `json:"log"`
}

// member is a cluster of a group. Its name is on what the process has for it alone, so no other may have it.
type member struct{ dataDir, name string }

// group is a running group.
type group struct {
	options Options
	dir     string
	// planes has the control planes, and podhosts what starts their hollow nodes.
	planes, podhosts *sharedProcess

	mutex    sync.Mutex
	clusters []member
	ending   bool
	running  sync.WaitGroup
	// output guards the lines of progress, and recorded the status file.
	output, recorded sync.Mutex
}

// Run runs a group without clusters until the context ends. Then its clusters are stopped in order.
func Run(ctx context.Context, options Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := controlplane.WatchParent(ctx, cancel, options.ExitWithParent, options.ParentPID); err != nil {
		return err
	}
	if options.EmulatedVersion == "" {
		options.EmulatedVersion = plane.Minor()
	}
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return fmt.Errorf("finding --dir: %w", err)
	}
	owned, err := owneddir.TakeOrOpen(dir, dirKind, 0o700)
	if err != nil {
		return dirError(err)
	}
	defer owned.Close()
	for _, name := range []string{groupSocket, HostComponent + socketSuffix, PodhostsComponent + socketSuffix} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing an earlier socket: %w", err)
		}
	}
	g := &group{options: options, dir: dir}
	return errors.Join(g.runProcesses(ctx), removeFiles(owned))
}

func dirError(err error) error {
	if errors.Is(err, owneddir.ErrBusy) {
		return fmt.Errorf("%w: --dir: another group runs there", controlplane.ErrInUse)
	}
	return fmt.Errorf("%w: --dir: %w", controlplane.ErrInvalid, err)
}

// FilePatterns are what a group makes in its directory, as patterns of owneddir.
func FilePatterns() []string {
	patterns := []string{groupSocket, statusFile, "." + statusFile + "-[0-9]*"}
	for _, component := range []string{HostComponent, PodhostsComponent} {
		patterns = append(patterns, component+socketSuffix, component+logSuffix, component+logSuffix+".1")
	}
	return patterns
}

func removeFiles(owned *owneddir.Directory) error {
	if _, err := owned.Remove(FilePatterns()); err != nil {
		return fmt.Errorf("removing the group's files: %w", err)
	}
	return nil
}

func (g *group) runProcesses(ctx context.Context) error {
	spawner := process.NewSpawner()
	defer spawner.Close()
	var err error
	if g.planes, err = g.newSharedProcess(spawner, HostComponent, "the shared process", "control planes"); err != nil {
		return err
	}
	defer g.planes.log.Close()
	if g.podhosts, err = g.newSharedProcess(spawner, PodhostsComponent, "the shared process of podhosts", "podhosts and hollow nodes"); err != nil {
		return err
	}
	defer g.podhosts.log.Close()
	unitsCtx, endUnits := context.WithCancel(context.WithoutCancel(ctx))
	defer endUnits()
	var loops sync.WaitGroup
	for _, process := range g.listProcesses() {
		process.run(unitsCtx, &loops)
	}
	g.planes.unit.Start()
	err = g.planes.unit.WaitHealthy(ctx)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w\nlast lines of %s:\n%s", err, g.planes.log.Path(), g.planes.log.Tail(logLines))
	} else if ctx.Err() == nil {
		err = g.serveRequests(ctx)
	} else {
		err = nil
	}
	err = errors.Join(err, g.stopProcesses(ctx))
	endUnits()
	loops.Wait()
	return err
}

// listProcesses returns those that have components.
func (g *group) listProcesses() []*sharedProcess { return []*sharedProcess{g.planes, g.podhosts} }

// stopProcesses ends them with what they still have.
func (g *group) stopProcesses(ctx context.Context) error {
	var failures []error
	for _, process := range g.listProcesses() {
		failures = append(failures, process.unit.Stop(context.WithoutCancel(ctx)))
	}
	return errors.Join(failures...)
}

// Dir is the directory of the group.
func (g *group) Dir() string { return g.dir }

// KillWait is how long a component may take to end when nothing of it is waited for any more.
func (g *group) KillWait() time.Duration { return cmp.Or(g.options.KillWait, killWait) }

// Launch starts a component of a cluster: a podhost apart from control planes, so that it can end none of those.
func (g *group) Launch(ctx context.Context, cluster, component string, args []string, log io.Writer) (controlplane.SharedRun, error) {
	if component == controlplane.Podhost {
		return g.podhosts.launchComponent(ctx, cluster, component, args, log)
	}
	return g.planes.launchComponent(ctx, cluster, component, args, log)
}

// logLines of the process's log are shown when it does not come up.
const logLines = 10

// serveRequests takes clusters until the context ends, and returns when all of them have ended.
func (g *group) serveRequests(ctx context.Context) error {
	listener, err := listenSocket(g.dir, groupSocket)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(writer http.ResponseWriter, _ *http.Request) { _, _ = writer.Write(encode(g.currentStatus())) })
	mux.HandleFunc("POST /clusters", func(writer http.ResponseWriter, request *http.Request) { g.handleStart(ctx, writer, request) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerPatience}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	g.printStep("group for Kubernetes %s ready in %s", g.options.EmulatedVersion, g.dir)
	select {
	case <-ctx.Done():
	case err = <-served:
	}
	g.mutex.Lock()
	g.ending = true
	g.mutex.Unlock()
	g.waitClusters(ctx)
	server.Close()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// waitClusters waits until all clusters have ended. A process in which one does not end is ended with it.
func (g *group) waitClusters(ctx context.Context) {
	for _, process := range g.listProcesses() {
		_ = process.unit.Resume() // Suspended, it could not stop in order.
	}
	ended := make(chan struct{})
	go func() { defer close(ended); g.running.Wait() }()
	patience := time.NewTimer(clustersGrace)
	defer patience.Stop()
	select {
	case <-ended:
		return
	case <-patience.C:
	}
	g.printStep("not all clusters have ended within %s: the shared processes are ended with them", clustersGrace)
	if err := g.stopProcesses(ctx); err != nil {
		g.printStep("%v", err)
	}
	<-ended
}

func checkHost(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url("/healthz"), nil)
	if err != nil {
		return fmt.Errorf("asking the shared process: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking the shared process: %w", err)
	}
	return response.Body.Close()
}

// currentStatus is what is known now.
func (g *group) currentStatus() Status {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	dirs := []string{}
	for _, cluster := range g.clusters {
		dirs = append(dirs, cluster.dataDir)
	}
	planes := g.planes.readStatus()
	return Status{
		Dir: g.dir, SupervisorPID: os.Getpid(), EmulatedVersion: g.options.EmulatedVersion, Clusters: dirs,
		MaxClusters: MaxClusters, Process: planes.Status, Unanswered: planes.Unanswered, Log: planes.Log, Podhosts: g.podhosts.readStatus(),
	}
}

// noteChange records the status in a file, and tells of a process that has ended by itself.
func (g *group) noteChange() {
	g.recorded.Lock()
	defer g.recorded.Unlock()
	status := g.currentStatus()
	if err := atomicfile.Write(filepath.Join(g.dir, statusFile), encode(status), statusMode); err != nil {
		g.printStep("writing the status: %v", err)
	}
	var names []string
	g.mutex.Lock()
	for _, cluster := range g.clusters {
		names = append(names, cluster.name)
	}
	g.mutex.Unlock()
	for _, process := range g.listProcesses() {
		process.tellEnd(names)
	}
}

// printStep prints one line of progress.
func (g *group) printStep(format string, args ...any) {
	g.output.Lock()
	defer g.output.Unlock()
	fmt.Fprintf(g.options.Progress, format+"\n", args...)
}
