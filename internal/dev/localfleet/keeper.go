package localfleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/hollowfleet/hollowfleet/internal/localclusters"
)

const (
	// hostFlag is the flag with which an agent finds the keeper.
	hostFlag = "--simulated-clusters-socket"

	socketMode      = 0o600
	headerPatience  = 5 * time.Second
	requestPatience = 5 * time.Second
	// askTogether is how many API servers a list asks at the same time.
	askTogether = 64
)

var errEnding = errors.New("the fleet is ending")

// hosting is what the fleet knows of its hosted clusters beside their records.
type hosting struct {
	socket net.Listener
	// changing is held while a request is decided and recorded. ended is that no more are taken.
	changing sync.Mutex
	ended    bool
	// removing is held while files are removed: only one at a time may.
	removing sync.Mutex

	mutex    sync.Mutex
	clusters map[string]*hosted
	// ending are the groups that are being ended, and take no more clusters.
	ending map[string]bool
	// starting has a place for each cluster that starts at the same time, until it is ready.
	starting chan struct{}
}

func (h *hosting) find(name string) *hosted {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.clusters[name]
}

// isRunning reports whether the control plane of a cluster was started.
func (h *hosting) isRunning(name string) bool {
	cluster := h.find(name)
	return cluster != nil && cluster.current().Cluster != nil
}

// members are the hosted clusters as they are now.
func (h *hosting) members() []*Member {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	var all []*Member
	for _, cluster := range h.clusters {
		member := cluster.current()
		all = append(all, &member)
	}
	return all
}

func (f *Fleet) socketPath() string {
	return filepath.Join(f.options.Dir, localclusters.SocketName)
}

// prepareKeeper opens the socket of a fleet that has a keeper.
func (f *Fleet) prepareKeeper(ctx context.Context) error {
	if !f.options.Kept {
		return nil
	}
	return f.openSocket(ctx)
}

// openSocket opens the keeper's socket. Without a host a fleet can be without one, if the file system of its directory has none.
func (f *Fleet) openSocket(ctx context.Context) error {
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		// A socket that is bound gets the mode of its descriptor: at no time may another user open it.
		var changed error
		if err := conn.Control(func(fd uintptr) { changed = syscall.Fchmod(int(fd), socketMode) }); err != nil {
			return err
		}
		return changed
	}}
	var err error
	if f.hosting.socket, err = localclusters.ListenSocket(ctx, config, f.socketPath()); err == nil || !f.options.Host {
		return nil // Nobody needs it.
	}
	return fmt.Errorf("serving the socket for simulated clusters: %w: choose a directory on a local file system", err)
}

// keepHosted serves the keeper's socket, and runs what is asked for there, until ctx ends.
func (f *Fleet) keepHosted(ctx context.Context) {
	if f.hosting.socket == nil {
		return
	}
	var runners sync.WaitGroup
	keeper := &keeper{fleet: f, launch: func(cluster *hosted) { runners.Go(func() { cluster.run(ctx) }) }}
	for _, record := range f.hostedRecords() {
		keeper.careFor(record.Name)
	}
	server := &http.Server{Handler: localclusters.NewHandler(keeper), ReadHeaderTimeout: headerPatience}
	served := make(chan error, 1)
	go func() { served <- server.Serve(f.hosting.socket) }()
	select {
	case <-ctx.Done():
	case err := <-served:
		f.reportProgress("serving the socket for simulated clusters: %v", err)
		<-ctx.Done()
	}
	f.hosting.changing.Lock()
	f.hosting.ended = true
	f.hosting.changing.Unlock()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestPatience)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		_ = server.Close() // Those who ask see that it has ended.
	}
	runners.Wait()
}

// keeper implements localclusters.Keeper.
type keeper struct {
	fleet *Fleet
	// launch lets a cluster run until the fleet ends.
	launch func(*hosted)
}

// List implements localclusters.Keeper.
func (k *keeper) List(ctx context.Context) (localclusters.ClusterList, error) {
	own, err := k.fleet.programVersion()
	if err != nil {
		return localclusters.ClusterList{}, err
	}
	records := k.fleet.hostedRecords()
	list := localclusters.ClusterList{Clusters: make([]localclusters.Cluster, len(records)), Versions: supportedVersions(own)}
	var group errgroup.Group
	group.SetLimit(askTogether)
	for i, record := range records {
		group.Go(func() error {
			list.Clusters[i] = k.describe(ctx, record)
			return nil
		})
	}
	return list, group.Wait()
}

// Get implements localclusters.Keeper.
func (k *keeper) Get(ctx context.Context, name string) (localclusters.Cluster, error) {
	record, there := k.fleet.hostedRecord(name)
	if !there {
		return localclusters.Cluster{}, missingError(name)
	}
	return k.describe(ctx, record), nil
}

func missingError(name string) error {
	return &localclusters.Problem{Reason: localclusters.NotFound, Field: "name", Message: fmt.Sprintf("there is no simulated cluster %s here", name)}
}

func (k *keeper) describe(ctx context.Context, record HostedCluster) localclusters.Cluster {
	cluster := localclusters.Cluster{Name: record.Name, UID: record.UID, Phase: localclusters.Starting, CredentialExpires: k.fleet.credentialExpiry(record.Name)}
	running := k.fleet.hosting.find(record.Name)
	if record.Removing {
		cluster.Phase = localclusters.Removing
	}
	if running == nil {
		return cluster
	}
	running.observe(ctx, &cluster)
	if cluster.Phase == localclusters.Running {
		cluster.Message = record.Resources.DescribeUnenforced()
	}
	return cluster
}

// Ensure implements localclusters.Keeper. What it takes is in the state file before anything of it is started.
func (k *keeper) Ensure(_ context.Context, name string, desired localclusters.Desired) (localclusters.Cluster, error) {
	f := k.fleet
	f.hosting.changing.Lock()
	defer f.hosting.changing.Unlock()
	answer := localclusters.Cluster{Name: name, UID: desired.UID, Phase: localclusters.Starting}
	if f.hosting.ended {
		return answer, errEnding
	}
	own, err := f.programVersion()
	if err != nil {
		return answer, err
	}
	before, _ := f.hostedRecord(name)
	record, isNew, err := k.acceptCluster(name, desired, own)
	if err != nil {
		return answer, err
	}
	if record != before {
		if err := f.recordHosted(record); err != nil {
			return answer, err
		}
	}
	changed, err := f.storeAccess(name, desired, time.Now())
	if err != nil {
		return answer, err
	}
	// A request that changes nothing is no reason to try again before its time.
	if cluster := k.careFor(name); isNew || changed || record != before {
		cluster.noteChange(changed && !isNew)
	}
	return answer, nil
}

// careFor returns a recorded cluster, and lets it run from now on if it does not.
func (k *keeper) careFor(name string) *hosted {
	if cluster := k.fleet.hosting.find(name); cluster != nil {
		return cluster
	}
	cluster := k.fleet.addHosted(name)
	k.launch(cluster)
	return cluster
}

// acceptCluster is what is to be recorded for a cluster, or why it is refused.
func (k *keeper) acceptCluster(name string, desired localclusters.Desired, own *version.Version) (record HostedCluster, isNew bool, err error) {
	f, before := k.fleet, (*HostedCluster)(nil)
	if known, there := f.hostedRecord(name); there {
		before = &known
	}
	if before == nil && f.isOwn(name) {
		return record, false, &localclusters.Problem{Reason: localclusters.NameTaken, Field: "name", Message: fmt.Sprintf("%s is a cluster of the fleet's own: choose another name", name)}
	}
	if record, err = decideRecord(name, desired, before, own); err != nil {
		return record, false, err
	}
	if expires := f.credentialExpiry(name); len(desired.Certificate) == 0 && (expires == nil || !expires.After(time.Now())) {
		return record, false, &localclusters.Problem{Reason: localclusters.Invalid, Field: "certificate", Message: fmt.Sprintf("the agent of cluster %s has no valid credential here: send certificate and key", name)}
	}
	if before == nil || before.ControlPlaneVersion != record.ControlPlaneVersion {
		if err := k.assignGroup(&record, own); err != nil {
			return record, false, err
		}
	}
	if before == nil || before.Resources.Memory() < record.Resources.Memory() {
		return record, before == nil, k.checkRoom(record)
	}
	return record, false, nil
}

// assignGroup gives a cluster a group of the minor that it emulates, if clusters share processes here.
func (k *keeper) assignGroup(record *HostedCluster, own *version.Version) error {
	if k.fleet.options.Isolation != IsolationShared {
		return nil
	}
	minor, err := emulatedMinor(record.ControlPlaneVersion, own)
	if err != nil {
		return err
	}
	records, minors := k.fleet.hostedRecords(), map[string]string{}
	for _, other := range records {
		if minors[other.Group], err = emulatedMinor(other.ControlPlaneVersion, own); err != nil {
			return err
		}
	}
	if record.Group != "" && minors[record.Group] == minor {
		return nil
	}
	k.fleet.hosting.mutex.Lock()
	defer k.fleet.hosting.mutex.Unlock()
	record.FormerGroup, record.Group = record.Group, groupFor(records, minor, minors, k.fleet.hosting.ending)
	return nil
}

// checkRoom refuses a cluster for which the machine has no room beside those that do not run yet, and what all ask for.
func (k *keeper) checkRoom(record HostedCluster) error {
	f := k.fleet
	if f.options.CheckRoom == nil {
		return nil
	}
	addition := Addition{Isolation: f.options.Isolation}
	var groups []string
	others := slices.DeleteFunc(f.hostedRecords(), func(other HostedCluster) bool { return other.Name == record.Name || other.Removing })
	for _, each := range append(others, record) {
		if memory := each.Resources.Memory(); memory > 0 {
			addition.Reserved = append(addition.Reserved, memory)
		}
		if !f.hosting.isRunning(each.Name) {
			addition.Clusters++
			groups = append(groups, each.Group)
		}
	}
	slices.Sort(groups)
	for _, key := range slices.Compact(groups) {
		if key != "" && !f.isGroupStarted(key) {
			addition.Groups++
		}
	}
	if err := f.options.CheckRoom(addition); err != nil {
		return &localclusters.Problem{Reason: localclusters.NoRoom, Message: err.Error()}
	}
	return nil
}

// Remove implements localclusters.Keeper.
func (k *keeper) Remove(_ context.Context, name, uid string) (localclusters.Cluster, error) {
	f := k.fleet
	f.hosting.changing.Lock()
	defer f.hosting.changing.Unlock()
	if f.hosting.ended {
		return localclusters.Cluster{}, errEnding
	}
	record, there := f.hostedRecord(name)
	switch {
	case !there:
		return localclusters.Cluster{}, missingError(name)
	case record.UID != uid:
		return localclusters.Cluster{}, takenError(record)
	}
	if !record.Removing {
		record.Removing = true
		if err := f.recordHosted(record); err != nil {
			return localclusters.Cluster{}, err
		}
		k.careFor(name).noteChange(false)
	}
	return localclusters.Cluster{Name: name, UID: uid, Phase: localclusters.Removing}, nil
}
