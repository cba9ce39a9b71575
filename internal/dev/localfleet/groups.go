package localfleet

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/owneddir"
)

// Isolation says what the control planes of the workload clusters share. That of the hub is always one of its own.
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

// DefaultIsolation is that of a fleet with so many clusters.
func DefaultIsolation(clusters int) Isolation {
	if clusters >= SharedFrom {
		return IsolationShared
	}
	return IsolationProcess
}

// Isolation is what the control planes of the fleet's workload clusters share.
func (f *Fleet) Isolation() Isolation { return f.options.Isolation }

// groups are the groups of a fleet.
type groups struct {
	mutex sync.Mutex
	// started are the groups by their numbers.
	started map[int]*process.Group
}

// groupOf returns the group of a cluster, nil for one with processes of its own. It starts the group if it does not run.
func (f *Fleet) groupOf(ctx context.Context, member int) (*process.Group, error) {
	if f.options.Isolation != IsolationShared {
		return nil, nil
	}
	f.groups.mutex.Lock()
	defer f.groups.mutex.Unlock()
	number := member/ClustersPerGroup + 1
	if group := f.groups.started[number]; group != nil && !isDone(group.Process) {
		return group, nil
	}
	name := fmt.Sprintf("%s%d", groupPrefix, number)
	group, err := process.StartGroup(ctx, name, f.binaryPath("simcluster"), f.groupDir(number), LogFile(f.options.Dir, name))
	if err != nil {
		return nil, err
	}
	if f.groups.started == nil {
		f.groups.started = map[int]*process.Group{}
	}
	f.groups.started[number] = group
	return group, f.recordProcess(group.Process)
}

func isDone(p *process.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

func (f *Fleet) groupDir(number int) string {
	return groupDir(f.options.Dir, number)
}

func groupDir(dir string, number int) string {
	return filepath.Join(dir, "groups", strconv.Itoa(number))
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
	for number := range f.groups.started {
		keep.Go(func() {
			f.keepRunning(ctx,
				func() *process.Process {
					f.groups.mutex.Lock()
					defer f.groups.mutex.Unlock()
					return f.groups.started[number].Process
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
		if member.Cluster, _, err = f.startControlPlane(ctx, member.Name, nil, group); err != nil {
			return err
		}
	}
	return nil
}

// groupFiles are the files that a group leaves if it is killed, as patterns.
func groupFiles(number int) []string {
	dir := fmt.Sprintf("groups/%d/", number)
	return []string{
		dir + owneddir.MarkerName, dir + "group.sock", dir + "planes.sock", dir + "planes.log", dir + "planes.log.1",
		dir + "status.json", dir + ".status.json-[0-9]*", fmt.Sprintf("logs/group-%d.log", number),
	}
}
