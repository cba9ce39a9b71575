package localfleet

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/owneddir"
)

// Isolation says what the control planes of the workload clusters share. That of the hub is one of its own, but with Programs.HubInGroup.
type Isolation string

const (
	// IsolationProcess gives each component of each cluster a process of its own.
	IsolationProcess Isolation = "process"
	// IsolationShared lets up to ClustersPerGroup clusters share a process.
	IsolationShared Isolation = "shared"

	// ClustersPerGroup is how many clusters share a process: as many as a panic ends.
	ClustersPerGroup = 10
	// SharedFrom is the number of clusters from which on IsolationShared is the default. In processes, ten with 20 Machines each need half
	// of a machine with 8 GiB and a quarter of its 2 cores before anything is done with them.
	SharedFrom = 10

	groupPrefix = "group "
)

// DefaultIsolation is that of a fleet with so many clusters. One without any is for simulated clusters, of which there are many.
func DefaultIsolation(clusters int) Isolation {
	if clusters >= SharedFrom || clusters == 0 {
		return IsolationShared
	}
	return IsolationProcess
}

// Isolation is what the control planes of the fleet's workload clusters share.
func (f *Fleet) Isolation() Isolation { return f.options.Isolation }

// groups are the groups of a fleet.
type groups struct {
	mutex sync.Mutex
	// started are the groups by their names without groupPrefix: numbers, and those of hostedGroupName.
	started map[string]*process.Group
}

// groupOf returns the group of a cluster, nil for one with processes of its own. It starts the group if it does not run.
func (f *Fleet) groupOf(ctx context.Context, member int) (*process.Group, error) {
	if f.options.Isolation != IsolationShared {
		return nil, nil
	}
	return f.ensureGroup(ctx, strconv.Itoa(member/ClustersPerGroup+1), "")
}

// groupOfHub returns the group of the hub's control plane, nil for one with processes of its own.
func (f *Fleet) groupOfHub(ctx context.Context) (*process.Group, error) {
	if !f.options.HubInGroup {
		return nil, nil
	}
	return f.groupOf(ctx, 0)
}

// ensureGroup returns the group of that name, and starts it if it does not run. Its clusters emulate the Kubernetes minor, such as 1.36;
// empty for that of the programs.
func (f *Fleet) ensureGroup(ctx context.Context, key, minor string) (*process.Group, error) {
	f.groups.mutex.Lock()
	defer f.groups.mutex.Unlock()
	if group := f.groups.started[key]; group != nil && !isDone(group.Process) {
		return group, nil
	}
	name, niceness := groupPrefix+key, workloadNiceness
	if f.options.HubInGroup {
		niceness = 0
	}
	group, err := process.StartGroup(ctx, process.GroupOptions{
		Name: name, Binary: f.binaryPath("simcluster"), Dir: groupDir(f.options.Dir, key), LogFile: LogFile(f.options.Dir, name), EmulatedVersion: minor, Niceness: niceness,
	})
	if err != nil {
		return nil, err
	}
	if f.groups.started == nil {
		f.groups.started = map[string]*process.Group{}
	}
	f.groups.started[key] = group
	return group, f.recordProcess(group.Process)
}

// stopGroup ends a group that has no clusters.
func (f *Fleet) stopGroup(key string) error {
	f.groups.mutex.Lock()
	defer f.groups.mutex.Unlock()
	group := f.groups.started[key]
	if group == nil {
		return nil
	}
	if err := group.Stop(); err != nil {
		return err
	}
	delete(f.groups.started, key)
	return nil
}

func isDone(p *process.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

func groupDir(dir, key string) string { return filepath.Join(dir, "groups", key) }

func (f *Fleet) isGroupStarted(key string) bool {
	f.groups.mutex.Lock()
	defer f.groups.mutex.Unlock()
	return f.groups.started[key] != nil
}

// startedGroups are the groups that run.
func (f *Fleet) startedGroups() []*process.Group {
	f.groups.mutex.Lock()
	defer f.groups.mutex.Unlock()
	var all []*process.Group
	for _, group := range f.groups.started {
		all = append(all, group)
	}
	return all
}

// keepGroups starts the groups again whenever their supervisors end, and their clusters with them.
func (f *Fleet) keepGroups(ctx context.Context, keep *sync.WaitGroup) {
	for number := 1; ; number++ {
		key := strconv.Itoa(number)
		if f.groups.started[key] == nil {
			return
		}
		keep.Go(func() {
			f.keepRunning(ctx,
				func() *process.Process {
					f.groups.mutex.Lock()
					defer f.groups.mutex.Unlock()
					return f.groups.started[key].Process
				},
				func(ctx context.Context) error { return f.restartGroup(ctx, number) })
		})
	}
}

func (f *Fleet) restartGroup(ctx context.Context, number int) error {
	first := (number - 1) * ClustersPerGroup
	for i, member := range f.Members[first:min(first+ClustersPerGroup, len(f.Members))] {
		group, err := f.groupOf(ctx, first+i)
		if err != nil {
			return err
		}
		if status, err := process.ReadGroup(group.Dir); err == nil && slices.Contains(status.Clusters, f.pathOf(member.Name)) {
			continue // An earlier attempt has started it.
		}
		if member.Cluster, _, err = f.startControlPlane(ctx, f.planeOf(member.Name, group)); err != nil {
			return err
		}
	}
	return nil
}

// groupFiles are the files that a group leaves if it is killed, as patterns.
func groupFiles(key string) []string {
	dir := "groups/" + key + "/"
	return []string{
		dir + owneddir.MarkerName, dir + "group.sock", dir + "planes.sock", dir + "planes.log", dir + "planes.log.1",
		dir + "podhosts.sock", dir + "podhosts.log", dir + "podhosts.log.1",
		dir + "status.json", dir + ".status.json-[0-9]*", "logs/group-" + key + ".log",
	}
}
