package localfleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hollowfleet/hollowfleet/internal/atomicfile"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

// stateFile lists a fleet's processes in its directory, so that another process can end them.
const stateFile = "fleet.json"

// earlierStateFile is the name under which earlier versions wrote the file that became the state file.
const earlierStateFile = stateFile + ".new"

const (
	// endGrace is longer than a control plane's own bound for a graceful stop.
	endGrace = 30 * time.Second
	// keeperGrace is longer than the end of a whole fleet takes.
	keeperGrace = 3 * endGrace
)

// State is the content of a fleet's state file.
type State struct {
	// Owner is the process that the fleet is for: the one that started it, unless that says otherwise.
	Owner process.Identity `json:"owner"`
	// Keeper is a process that starts programs again which end, if there is one. It ends the whole fleet when it
	// gets SIGTERM.
	Keeper *process.Identity `json:"keeper,omitempty"`
	// KeeperArgs are the arguments with which the program of the keeper keeps the fleet. A fleet of an earlier version has none.
	KeeperArgs []string `json:"keeperArgs,omitempty"`
	// Ready tells that every agent has been started, CameUp that they have been once: then the fleet's data is worth keeping.
	Ready  bool `json:"ready,omitempty"`
	CameUp bool `json:"cameUp,omitempty"`
	// Simcluster is the program that runs the control planes.
	Simcluster string `json:"simcluster"`
	// Isolation is what the workload clusters' control planes share. A fleet of an earlier version has none, and shares nothing.
	Isolation Isolation `json:"isolation,omitempty"`
	// NodesPerPack is how many hollow nodes of a cluster share a process at most. A fleet of an earlier version has none.
	NodesPerPack int `json:"nodesPerPack,omitempty"`
	// Clusters are the names of the control planes, the hub's first. Each has a directory of that name.
	Clusters []string `json:"clusters"`
	// Host is the Cluster whose control plane is the hub's, and whose agent has the Hosted clusters run; empty if there is none.
	Host string `json:"host,omitempty"`
	// Hosted are the simulated clusters that the keeper runs for it.
	Hosted []HostedCluster `json:"hosted,omitempty"`
	// Processes in the order of their start.
	Processes []process.Identity `json:"processes"`
	// Endpoints are those of hub and agents, by the names of their processes.
	Endpoints map[string]Endpoints `json:"endpoints,omitempty"`
}

func (f *Fleet) recordProcess(started *process.Process) error {
	identity, err := started.Identity()
	if err != nil {
		return err
	}
	f.recording.Lock()
	defer f.recording.Unlock()
	// Those that ended were replaced.
	f.state.Processes = slices.DeleteFunc(f.state.Processes, func(p process.Identity) bool { return !p.Alive() })
	f.state.Processes = append(f.state.Processes, identity)
	return f.writeState()
}

// recordMember records a further workload cluster before any of its files is made.
func (f *Fleet) recordMember(member *Member) error {
	f.recording.Lock()
	defer f.recording.Unlock()
	f.Members = append(f.Members, member)
	f.state.Clusters = append(f.state.Clusters, member.Name)
	return f.writeState()
}

func (f *Fleet) recordReady() error {
	f.recording.Lock()
	defer f.recording.Unlock()
	f.state.Ready, f.state.CameUp = true, true
	return f.writeState()
}

func (f *Fleet) writeState() error {
	content, err := json.MarshalIndent(f.state, "", "  ")
	if err != nil {
		return fmt.Errorf("recording the fleet: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(f.options.Dir, stateFile), content, 0o644); err != nil {
		return fmt.Errorf("recording the fleet: %w", err)
	}
	f.writeTargets()
	return nil
}

// ReadState reads the state of the fleet in dir.
func ReadState(dir string) (State, error) {
	var state State
	content, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return state, fmt.Errorf("reading the state of the fleet in %s: %w", dir, err)
	}
	if err := json.Unmarshal(content, &state); err != nil {
		return state, fmt.Errorf("reading the state of the fleet in %s: %w", dir, err)
	}
	return state, nil
}

// Down ends the fleet in dir, whichever process started it, and removes its files. It returns the paths of what is left
// there because the fleet did not make it. Without a fleet there it does nothing, and the error wraps ErrNoFleet. A keeper
// that has only just been started may not be recorded yet, and can be given.
func Down(ctx context.Context, dir string, started ...*process.Process) (left []string, err error) {
	// As long as it is open here, the keeper leaves the removal to this process, which says what is left.
	owned, err := openDirectory(dir)
	if err != nil {
		return nil, err
	}
	defer owned.Close()
	for _, keeper := range started {
		if err := keeper.Stop(keeperGrace); err != nil {
			return nil, err
		}
	}
	state, err := ReadState(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if state.Keeper != nil {
		if err := state.Keeper.End(ctx, keeperGrace); err != nil {
			return nil, err
		}
	}
	slices.Reverse(state.Processes)
	for _, identity := range state.Processes {
		if err := identity.End(ctx, endGrace); err != nil {
			return nil, err
		}
	}
	return state.removeFiles(ctx, owned)
}

const (
	// A program that ends is started again after firstRestart, then twice as long each time, up to lastRestart,
	// until it has run for steady.
	firstRestart = time.Second
	lastRestart  = 30 * time.Second
	steady       = time.Minute
)

// Keep starts the hub, the agents and the supervisors of groups again whenever they end, until ctx is done. Control planes do that
// for themselves. It also serves the keeper's socket, and runs the simulated clusters that are asked for there.
func (f *Fleet) Keep(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() {
		f.keepRunning(ctx, func() *process.Process { return f.HubProcess }, f.StartHubProcess)
	})
	members := f.Members
	if f.Host != nil {
		members = append(slices.Clone(members), f.Host)
	}
	for _, member := range members {
		group.Go(func() {
			f.keepRunning(ctx, func() *process.Process { return member.Agent },
				func(ctx context.Context) error { return f.StartAgent(ctx, member) })
		})
	}
	f.keepGroups(ctx, &group)
	group.Go(func() { f.keepHosted(ctx) })
	group.Wait()
}

// keepRunning looks after one program.
func (f *Fleet) keepRunning(ctx context.Context, current func() *process.Process, start func(context.Context) error) {
	wait := firstRestart
	for {
		running := current()
		began := time.Now()
		select {
		case <-running.Done():
		case <-ctx.Done():
			return
		}
		if time.Since(began) > steady {
			wait = firstRestart
		}
		f.reportProgress("%s ended; starting it again in %s", running.Name(), wait)
		for restarted := false; !restarted; wait = min(2*wait, lastRestart) {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
			err := start(ctx)
			if restarted = err == nil; !restarted {
				f.reportProgress("starting %s again: %v", running.Name(), err)
			}
		}
	}
}
