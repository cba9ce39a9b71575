package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

const (
	// stopTimeout bounds the whole stop.
	stopTimeout = 20 * time.Second
	// logLimit bounds a component's log file, of which there are two generations.
	logLimit = 8 << 20
)

// graces are the times that the components have to end by themselves. Together
// they fit into stopTimeout, as scheduler and controller manager end together.
var graces = map[string]time.Duration{
	Podhost:           8 * time.Second,
	Scheduler:         2 * time.Second,
	ControllerManager: 2 * time.Second,
	APIServer:         5 * time.Second,
	Etcd:              3 * time.Second,
}

// stopOrder lists who ends together, first to last: no process loses what it needs
// to end in order.
var stopOrder = [][]string{{Podhost}, {Scheduler, ControllerManager}, {APIServer}, {Etcd}}

// supervisor is one running cluster.
type supervisor struct {
	options Options
	layout  Layout
	cluster state
	// identities are where the certificates are.
	identities identityFiles
	// minors are the Kubernetes minors that the components emulate.
	minors minors
	// renewAt is when certificates are to be renewed, zero if another program does that.
	renewAt time.Time
	runDir  string
	ports   reservations
	spawner *process.Spawner
	client  kubernetes.Interface
	logs    map[string]*process.LogFile
	units   map[string]*process.Unit
	// manifests are objects that the cluster has once it is ready.
	manifests []*unstructured.Unstructured
	checks    map[string]healthCheck
	urls      map[string]string
	// sharedRuns are the present runs of components in a shared process, by component.
	sharedRuns sync.Map
	// started is when the start started.
	begun time.Time
	// space is why etcd refuses writes, as last looked at; nil or empty if it does not.
	space atomic.Pointer[string]
	// versionProblem is why the components do not get the version of the file; nil or empty if they do.
	versionProblem atomic.Pointer[string]
	// started is set from the moment that ready.json may be written until the stop.
	started atomic.Bool

	// output guards the lines of progress, readyFile the writing of ready.json.
	output, readyFile sync.Mutex
}

// errNameNeeded says that no earlier start has recorded a name.
var errNameNeeded = fmt.Errorf("%w: --name is needed for the first start in a data directory", ErrInvalid)

// Run runs the cluster until the context ends, or the parent process does. It
// returns nil after an ordered stop. All components have ended by then, unless
// the error names one that could not be stopped.
func Run(ctx context.Context, options Options) error {
	if err := options.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	options.stop = func() { cancel(nil) }
	if err := WatchParent(ctx, cancel, options.ExitWithParent, options.ParentPID); err != nil {
		return err
	}
	layout, err := NewLayout(options.DataDir)
	if err != nil {
		return err
	}
	// A first start without a name ends before the directory is taken, so that it leaves nothing behind.
	if options.Name == "" && layout.isNew() {
		return errNameNeeded
	}
	if err := layout.makeDirectories(); err != nil {
		return err
	}
	held, err := acquireLock(layout.lockFile(), options.groupDir())
	if err != nil {
		return err
	}
	defer held.releaseLock()
	s, err := newSupervisor(ctx, options, layout)
	if err != nil {
		return err
	}
	defer s.cleanUp()
	return s.run(ctx)
}

// errParentGone is the cause of a stop because the parent process has ended.
var errParentGone = errors.New("the parent process has ended")

// WatchParent cancels when the process with the id ends, or with 0 the one that started this. It does nothing if that is not wanted.
func WatchParent(ctx context.Context, cancel context.CancelCauseFunc, wanted bool, pid int) error {
	if !wanted {
		return nil
	}
	parent, err := process.WatchParent(pid)
	if err != nil {
		return fmt.Errorf("%w; --exit-with-parent=false starts without watching", err)
	}
	go func() {
		if parent.Wait(ctx) == nil {
			cancel(fmt.Errorf("%w (process %d)", errParentGone, parent.PID()))
		}
	}()
	return nil
}

// newSupervisor makes everything that the components need and starts none.
func newSupervisor(ctx context.Context, options Options, layout Layout) (*supervisor, error) {
	if err := layout.removeReady(); err != nil {
		return nil, err
	}
	cluster, err := options.adoptState(layout)
	if err != nil {
		return nil, err
	}
	starting, err := options.chooseMinors(cluster.EmulatedVersions)
	if err != nil {
		return nil, err
	}
	cluster.EmulatedVersions = map[string]string{}
	for component, minor := range starting {
		cluster.EmulatedVersions[component] = writtenMinor(minor)
	}
	manifests, err := readManifests(options.Manifests)
	if err != nil {
		return nil, err
	}
	s := &supervisor{options: options, layout: layout, cluster: cluster, manifests: manifests, begun: time.Now()}
	s.minors.of = starting
	if s.runDir, err = layout.prepareRunDir(); err != nil {
		return nil, err
	}
	if s.ports, err = s.options.reservePorts(ctx, &s.cluster); err != nil {
		return nil, err
	}
	if err := s.prepareFiles(); err != nil {
		s.cleanUp()
		return nil, err
	}
	return s, nil
}

// adoptState joins the options with what earlier starts recorded.
func (o *Options) adoptState(layout Layout) (state, error) {
	cluster, err := layout.readState()
	if err != nil {
		return state{}, err
	}
	switch {
	case cluster.Name == "" && o.Name == "":
		return state{}, errNameNeeded
	case cluster.Name == "":
		cluster.Name, cluster.PodCIDR = o.Name, clusterCIDR
	case o.Name != "" && o.Name != cluster.Name:
		return state{}, fmt.Errorf("%w: --name=%q, but %s holds the cluster %q; choose another --data-dir", ErrInvalid, o.Name, layout.Root(), cluster.Name)
	}
	if cluster.PodCIDR == "" {
		cluster.PodCIDR = earlierCIDR
	}
	if cluster.APIServerPort != 0 && cluster.PKIDir != o.PKIDir {
		return state{}, fmt.Errorf("%w: --pki-dir=%q, but the cluster in %s was made with %q, and its clients trust that authority", ErrInvalid, o.PKIDir, layout.Root(), cluster.PKIDir)
	}
	cluster.Listen, cluster.PKIDir = o.Listen.String(), o.PKIDir
	if !o.hasComponent(Podhost) {
		o.PodhostNode = ""
	} else if o.PodhostNode == "" {
		o.PodhostNode = cluster.Name + "-" + Podhost
	}
	return cluster, nil
}

func (s *supervisor) prepareFiles() error {
	s.identities = identityFiles{layout: s.layout, external: externalPKI(s.cluster.PKIDir)}
	var err error
	if s.renewAt, err = s.identities.ensureFiles(s.cluster, s.options); err != nil {
		return err
	}
	if err := writeJSON(s.layout.stateFile(), s.cluster); err != nil {
		return err
	}
	config, err := s.adminConfig()
	if err != nil {
		return err
	}
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return s.makeUnits()
}

func (s *supervisor) makeUnits() error {
	ca, _ := s.identities.caPaths()
	secure, err := secureClient(ca)
	if err != nil {
		return err
	}
	ports := s.ports.portNumbers()
	local := func(component, path string) string {
		return "https://" + net.JoinHostPort(loopback.String(), strconv.Itoa(ports[component])) + path
	}
	s.urls = map[string]string{
		APIServer:         s.cluster.serverURL() + "/readyz",
		ControllerManager: local(ControllerManager, "/healthz"),
		Scheduler:         local(Scheduler, "/healthz"),
	}
	s.checks = map[string]healthCheck{
		Etcd:    checkEtcd(s.runDir),
		Podhost: socketHealth(filepath.Join(s.runDir, podhostSocket), PodhostReadyPath, ""),
	}
	for component, url := range s.urls {
		s.checks[component] = checkHTTP(secure, url, "")
	}
	// The controller manager says that it is healthy before it has any
	// controllers; each one that it has adds a line.
	s.checks[ControllerManager] = checkHTTP(secure, s.urls[ControllerManager]+"?verbose", "-controller ok")
	if s.options.Shared != nil {
		for _, component := range []string{ControllerManager, Scheduler, Podhost} {
			delete(s.urls, component)
			s.checks[component] = s.checkShared(component)
		}
	}
	s.checks[Podhost] = podhostHealth(s.client, s.options.PodhostNode, s.checks[Podhost])
	s.spawner = process.NewSpawner()
	s.logs, s.units = map[string]*process.LogFile{}, map[string]*process.Unit{}
	flags := flagSource{
		layout: s.layout, cluster: s.cluster, identities: s.identities, runDir: s.runDir, ports: ports,
		fsync: s.options.Fsync, aggregation: s.options.Aggregation, podhostNode: s.options.PodhostNode,
	}
	for _, component := range s.options.Components {
		if s.logs[component], err = process.OpenLog(s.layout.LogFile(component), logLimit); err != nil {
			return err
		}
		s.units[component] = process.NewUnit(process.Options{
			Name: component,
			Launch: s.launchComponent(component, func() []string {
				args := flags.commandLine(component, s.minors.get(component), s.options.ExtraArgs[component])
				if component == Podhost {
					args = append(args, "--last-exit="+s.units[component].Status().LastExit)
				}
				return args
			}),
			Healthy:  isServing(s.checks[component]),
			OnChange: s.writeReady,
			Grace:    graces[component],
			KillWait: s.options.killWait(),
		})
	}
	return nil
}

// launchComponent starts a component with the flags that it has by then.
func (s *supervisor) launchComponent(component string, flags func() []string) process.Launch {
	if s.options.Shared != nil {
		return s.launchShared(component, flags)
	}
	return func(context.Context) (process.Instance, error) {
		if err := s.checkRoom(component); err != nil {
			return nil, err
		}
		return s.spawner.Start(process.Command{
			Path:   s.options.Executable,
			Args:   append([]string{s.options.ChildArg, component}, flags()...),
			Env:    os.Environ(),
			Dir:    s.runDir,
			Output: s.logs[component],
		})
	}
}

// cleanUp gives back what prepare took.
func (s *supervisor) cleanUp() {
	s.ports.releasePorts()
	for _, log := range s.logs {
		log.Close()
	}
	if s.spawner != nil {
		s.spawner.Close()
	}
	s.layout.removeRunDir()
}

// printStep prints one line of progress.
func (s *supervisor) printStep(format string, args ...any) {
	s.output.Lock()
	defer s.output.Unlock()
	fmt.Fprintf(s.options.Progress, format+"\n", args...)
}

// writeReady brings ready.json up to date. No caller can be told if that fails,
// so it is said on the progress output, and the next change tries again.
func (s *supervisor) writeReady() {
	s.readyFile.Lock()
	defer s.readyFile.Unlock()
	if !s.started.Load() {
		return
	}
	ca, _ := s.identities.caPaths()
	ready := Ready{
		Name:            s.cluster.Name,
		Server:          s.cluster.serverURL(),
		AdminKubeconfig: s.layout.AdminKubeconfig(),
		CAFile:          ca,
		SupervisorPID:   os.Getpid(),
		Components:      map[string]ReadyComponent{},
		PodhostNode:     s.options.PodhostNode,
		Version:         s.options.Version,
		Isolation:       s.options.isolationMode(),
		Group:           s.options.groupDir(),
	}
	for name, unit := range s.units {
		ready.Components[name] = ReadyComponent{PID: unit.Status().PID, HealthURL: s.urls[name], Log: s.layout.LogFile(name), EmulatedVersion: s.emulatedMinor(name), Problem: s.describeProblem(name)}
	}
	if err := writeJSON(s.layout.ReadyFile(), ready); err != nil {
		s.printStep("%v", err)
	}
}
