// Package localfleet runs a whole fleet on one machine: a hub with its control plane, and simulated workload
// clusters with an agent each, all as local processes on loopback.
package localfleet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

const (
	hubName = "hub"
	// HostName is the Cluster whose target is the hub's own control plane, and whose agent has simulated clusters run by the keeper. No
	// other cluster of a fleet may have this name.
	HostName = "host"
	// SetName is the SimulatedClusterSet that "kubectl hollow local up" makes for a host.
	SetName = "local"
	// KeeperName is the name of the process that keeps a fleet, in its logs.
	KeeperName    = "keeper"
	clusterPrefix = "cluster "
	// The users that hub and agents are in the control planes.
	hubUser   = "hollowfleet-hub"
	agentUser = "hollowfleet-agent"
	// HollowNodeImage is the image name that agents put into hollow-node pods.
	HollowNodeImage = "hollowfleet/hollow-node"
	stopGrace       = 15 * time.Second
	removeTimeout   = time.Minute
	// leastStarting is how many clusters start at the same time on the smallest machine.
	leastStarting = 4
	// workloadNiceness halves the share of a busy machine that a workload cluster gets.
	workloadNiceness = 4
)

// Options say what fleet to start.
type Options struct {
	// Dir takes everything that the fleet writes. It must not exist yet, or be empty.
	Dir string
	// DirID is the ID that Take returned, if the caller has taken Dir already.
	DirID string
	Programs
	// Clusters are the names of the workload clusters.
	Clusters []string
	// Host adds a Cluster HostName, whose agent has simulated clusters run by the keeper. It needs Kept.
	Host bool
	// CheckRoom is asked before the keeper takes simulated clusters more, and says why there is no room for them. It may be nil.
	CheckRoom func(Addition) error
	// Owner is the process that the fleet is for. Default: this one.
	Owner *process.Identity
	// Kept says that the caller calls Keep, and ends the fleet when it gets SIGTERM.
	Kept bool
	// KeeperArgs are the arguments with which this program keeps such a fleet, for Resumable.
	KeeperArgs []string
	// Resume continues with the fleet in Dir, whose keeper has ended. DirID is needed.
	Resume bool
	// Cables lead connections another way than the direct one. They may be nil.
	Cables Cables
	// Progress is told what has been done, a line each. It may be nil.
	Progress func(line string)
}

// Programs are what a fleet runs.
type Programs struct {
	// BinDir holds the built programs hub, agent, simcluster and hollow-node, and hollow-node with the kubelet code of other minors in
	// directories such as v1.36.
	BinDir string
	// NodesPerPack is how many hollow nodes of a cluster share a process. Default: 1, so that each can be ended by itself.
	NodesPerPack int
	// Heartbeats is how often Nodes are to report. Default: HeartbeatsNormal.
	Heartbeats Heartbeats
	// Isolation is what control planes share. Default: IsolationProcess.
	Isolation Isolation
	// HubInGroup lets the control plane of the hub share the process of the first clusters, of which there are fewer than ClustersPerGroup
	// then. It costs less; a panic ends the hub's too.
	HubInGroup bool
	// HubArgs, AgentArgs and ClusterArgs are added to the command lines of the hub, the agents and the control planes of workload clusters.
	HubArgs, AgentArgs, ClusterArgs []string
}

// Fleet is a running fleet.
type Fleet struct {
	options Options

	// Hub is the hub's control plane, HubConfig and HubClient its administrator's, HubProcess the hub itself.
	Hub        *process.Cluster
	HubConfig  *rest.Config
	HubClient  client.WithWatch
	HubProcess *process.Process
	// Members are the workload clusters in the order of Options.Clusters.
	Members []*Member
	// Host is the Cluster HostName, whose control plane is that of the hub. It is nil without Options.Host.
	Host *Member

	// minors are the directories of hollow nodes with the kubelet code of other minors, by minor.
	minors    map[string]string
	groups    groups
	hosting   hosting
	recording sync.Mutex
	state     State
	// targets is what was last written for Prometheus.
	targets []byte
}

// Member is one workload cluster of a fleet.
type Member struct {
	Name string
	// Cluster is its control plane, Client its administrator's client, Agent its agent.
	Cluster *process.Cluster
	Client  client.WithWatch
	Agent   *process.Process
}

// Up starts a fleet and returns when every cluster has its agent running. When it fails, or ctx ends, what
// was started is ended again.
func Up(ctx context.Context, options Options) (*Fleet, error) {
	self, err := process.Self()
	if err != nil {
		return nil, err
	}
	owner := self
	if options.Owner != nil {
		owner = *options.Owner
	}
	fleet := &Fleet{options: options}
	if options.Isolation == "" {
		fleet.options.Isolation = IsolationProcess
	}
	fleet.state = State{KeeperArgs: options.KeeperArgs, Isolation: fleet.options.Isolation, NodesPerPack: max(options.NodesPerPack, 1), Owner: owner, Simcluster: fleet.binaryPath("simcluster"), Clusters: slices.Concat([]string{hubName}, options.Clusters)}
	if options.Kept {
		fleet.state.Keeper = &self
	}
	if options.Host {
		fleet.Host, fleet.state.Host = &Member{Name: HostName}, HostName
	}
	if slices.Contains(options.Clusters, HostName) {
		return nil, fmt.Errorf("clusters: %q is the name of the cluster that hosts simulated ones: choose another name", HostName)
	}
	for _, name := range options.Clusters {
		fleet.Members = append(fleet.Members, &Member{Name: name})
	}
	claim, end := fleet.claimDirectory, fleet.Down
	if options.Resume {
		claim, end = func() error { return fleet.takeOver(ctx) }, fleet.stop // Its data stays, for another try.
	}
	if err := claim(); err != nil {
		return nil, err
	}
	fleet.writeMonitoring()
	fleet.findMinors(ctx)
	if err := fleet.prepareKeeper(ctx); err != nil {
		return nil, errors.Join(err, end())
	}
	if err := fleet.bringUp(ctx); err != nil {
		return nil, errors.Join(err, end())
	}
	return fleet, fleet.recordReady()
}

// Add starts one more workload cluster in a fleet that is up, lets it join, and starts its agent. Keep does not look after it.
func (f *Fleet) Add(ctx context.Context, name string) (*Member, error) {
	member := &Member{Name: name}
	if err := f.recordMember(member); err != nil {
		return nil, err
	}
	if err := f.startCluster(ctx, member); err != nil {
		return nil, err
	}
	if err := f.Join(ctx, member); err != nil {
		return nil, err
	}
	return member, f.StartAgent(ctx, member)
}

func (f *Fleet) bringUp(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	hubReady := make(chan struct{})
	// A control plane that starts takes a processor for seconds: all of a large fleet at once would only wait for each other.
	starting := make(chan struct{}, startsAtATime())
	group.Go(func() error {
		if err := f.startHub(ctx); err != nil {
			return err
		}
		close(hubReady)
		if f.Host == nil {
			return nil
		}
		return f.startHost(ctx)
	})
	for _, member := range f.Members {
		group.Go(func() error {
			starting <- struct{}{}
			err := f.startCluster(ctx, member)
			<-starting
			if err != nil {
				return err
			}
			select {
			case <-hubReady:
				if err := f.joinOnce(ctx, member); err != nil {
					return err
				}
				return f.StartAgent(ctx, member)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}
	return group.Wait()
}

func (f *Fleet) startCluster(ctx context.Context, member *Member) error {
	group, err := f.groupOf(ctx, slices.Index(f.Members, member))
	if err != nil {
		return err
	}
	member.Cluster, member.Client, err = f.startControlPlane(ctx, f.planeOf(member.Name, group))
	if err != nil {
		return err
	}
	return grantMember(ctx, member.Client)
}

// plane is a control plane to start.
type plane struct {
	name, dir string
	// components are those that it needs, all if empty.
	components []string
	group      *process.Group
	// minor is the Kubernetes minor that it emulates, such as 1.36. Empty: that of the programs.
	minor string
	// isHosted is that no Cables lead there.
	isHosted bool
}

// planeOf is the control plane of the hub, or of a cluster of Options.Clusters.
func (f *Fleet) planeOf(name string, group *process.Group) plane {
	return plane{name: name, dir: f.pathOf(name), group: group}
}

func (f *Fleet) startControlPlane(ctx context.Context, plane plane) (*process.Cluster, client.WithWatch, error) {
	name, group := plane.name, plane.group
	args := []string{"--nodes-per-pack", strconv.Itoa(max(f.options.NodesPerPack, 1))}
	if plane.minor != "" {
		args = append(args, "--emulated-version", plane.minor)
	}
	if f.options.Heartbeats == HeartbeatsSlow {
		args = append(args, "--controller-manager-arg", slowNodeMonitor)
	}
	if name != hubName {
		args = append(args, f.options.ClusterArgs...)
	}
	if f.options.Cables != nil && !plane.isHosted {
		more, err := f.options.Cables.ControlPlaneArgs(name, plane.dir)
		if err != nil {
			return nil, nil, fmt.Errorf("choosing the arguments of the control plane of %s: %w", name, err)
		}
		args = append(args, more...)
	}
	cluster, err := process.StartCluster(ctx, process.ClusterOptions{
		Name: name, Dir: plane.dir, LogFile: LogFile(f.options.Dir, clusterPrefix+name), KubeconfigDir: f.kubeconfigDir(name), Binary: f.binaryPath("simcluster"), Components: plane.components,
		Images: f.images(), Args: args, Group: group, Niceness: nicenessOf(name),
	})
	if err != nil {
		return nil, nil, err
	}
	if group == nil {
		if err := f.recordProcess(cluster.Process); err != nil {
			return nil, nil, errors.Join(err, cluster.Stop()) //nolint:contextcheck // It is stopped when ctx has ended, too.
		}
	}
	f.reportProgress("%s: control plane ready", name)
	restConfig, err := cluster.RESTConfig()
	if err != nil {
		return cluster, nil, err
	}
	c, err := client.NewWithWatch(restConfig, client.Options{Scheme: scheme.New()})
	if err != nil {
		return cluster, nil, fmt.Errorf("making a client for cluster %s: %w", name, err)
	}
	return cluster, c, nil
}

// nicenessOf lets all of a workload cluster give way to the hub and to agents: a hub that answers late freezes the whole fleet.
func nicenessOf(cluster string) int {
	if cluster == hubName {
		return 0
	}
	return workloadNiceness
}

func (f *Fleet) startProcess(name, program string, args []string) (*process.Process, error) {
	started, err := process.Start(process.Spec{
		Name: name, Path: f.binaryPath(program), Args: args,
		LogFile: LogFile(f.options.Dir, name),
	})
	if err != nil {
		return nil, err
	}
	return started, f.recordProcess(started)
}

// Down ends the fleet and removes its files. What is left in its directory because the fleet did not make it is reported to Progress.
func (f *Fleet) Down() error {
	stopped := f.stop()
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	left, err := f.removeFiles(ctx)
	for _, path := range left {
		f.reportProgress("left in place, because the fleet did not make it: %s", path)
	}
	return errors.Join(stopped, err)
}

// stop ends all that the fleet has started.
func (f *Fleet) stop() error {
	var problems []error
	if f.hosting.socket != nil {
		_ = f.hosting.socket.Close() // Keep has closed it already, unless the fleet did not come up.
	}
	stop := func(p *process.Process) {
		if p != nil {
			problems = append(problems, p.Stop(stopGrace))
		}
	}
	stop(f.HubProcess)
	for _, member := range f.agentMembers() {
		stop(member.Agent)
	}
	var group errgroup.Group
	for _, cluster := range f.controlPlanes() {
		group.Go(cluster.Stop)
	}
	problems = append(problems, group.Wait())
	for _, started := range f.startedGroups() {
		group.Go(started.Stop)
	}
	return errors.Join(append(problems, group.Wait())...)
}

func (f *Fleet) controlPlanes() []*process.Cluster {
	var all []*process.Cluster
	for _, member := range slices.Concat(f.Members, f.hosting.members()) {
		if member.Cluster != nil {
			all = append(all, member.Cluster)
		}
	}
	if f.Hub != nil {
		all = append(all, f.Hub)
	}
	return all
}

// agentMembers are those that have an agent of this fleet.
func (f *Fleet) agentMembers() []*Member {
	all := slices.Concat(f.Members, f.hosting.members())
	if f.Host != nil {
		all = append(all, f.Host)
	}
	return all
}

func (f *Fleet) pathOf(name string) string { return filepath.Join(f.options.Dir, name) }

// kubeconfigDir has the kubeconfigs with which hub and agents reach the cluster of that name.
func (f *Fleet) kubeconfigDir(name string) string {
	return filepath.Join(f.options.Dir, "kubeconfigs", name)
}

func (f *Fleet) binaryPath(name string) string { return filepath.Join(f.options.BinDir, name) }

func (f *Fleet) reportProgress(format string, args ...any) {
	if f.options.Progress != nil {
		f.options.Progress(fmt.Sprintf(format, args...))
	}
}
