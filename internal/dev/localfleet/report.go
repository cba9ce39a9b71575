package localfleet

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

// Report is what there is of a fleet right now.
type Report struct {
	Dir string `json:"dir"`
	// Ready tells that the fleet has come up.
	Ready bool `json:"ready"`
	// Resumable is that the keeper has ended without ending the fleet, which can be started again with all of its data.
	Resumable bool `json:"resumable,omitempty"`
	// Interrupted is that the command that starts the fleet has ended before everything was there, which another command can finish.
	Interrupted bool `json:"interrupted,omitempty"`
	// Hub is the hub's control plane, Clusters are those of the workload clusters: the fleet's own, and the simulated ones that the keeper
	// runs for the host.
	Hub      ControlPlane   `json:"hub"`
	Clusters []ControlPlane `json:"clusters"`
	// Host is the Cluster whose control plane is the hub's, and whose agent has simulated clusters run; empty if there is none.
	Host string `json:"host,omitempty"`
	// Isolation is what the control planes of the workload clusters share.
	Isolation Isolation `json:"isolation"`
	// Groups are those whose process they share, if they do.
	Groups []Group `json:"groups,omitempty"`
	// NodesPerPack is how many hollow nodes of a cluster share a process at most.
	NodesPerPack int `json:"nodesPerPack,omitempty"`
	// Monitoring is what Prometheus and Grafana read.
	Monitoring *Monitoring `json:"monitoring,omitempty"`
	// Processes are those that run the fleet.
	Processes []Running `json:"processes"`
}

// Group is a group of workload clusters whose control planes share a process.
type Group struct {
	Name string `json:"name"`
	process.GroupStatus
}

// ControlPlane is one simulated cluster. One that is not ready has no server.
type ControlPlane struct {
	Name string `json:"name"`
	// Dir is its data directory.
	Dir        string `json:"dir,omitempty"`
	Server     string `json:"server,omitempty"`
	Version    string `json:"version,omitempty"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Group is the name of the group whose process it shares, empty for processes of its own.
	Group string `json:"group,omitempty"`
	// NodeProcesses is how many processes its hollow nodes run in.
	NodeProcesses int `json:"nodeProcesses,omitempty"`
	// Problems say which components cannot do all of their job, although they run, and why.
	Problems []string `json:"problems,omitempty"`
	// UID is that of the SimulatedCluster; empty for one of the fleet's own.
	UID string `json:"uid,omitempty"`
	// Removing is that it is being removed.
	Removing bool `json:"removing,omitempty"`
}

// Running is one process of a fleet.
type Running struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	Alive bool   `json:"alive"`
	// SilentPID is the process that does not answer, 0 if all do: this one if it is suspended, or that of a group which answers no checks.
	SilentPID int    `json:"silentPID,omitempty"`
	Log       string `json:"log,omitempty"`
	Endpoints
}

// ReadReport reports on the fleet in dir, also if only its start is recorded.
func ReadReport(dir string) (Report, error) {
	report := Report{Dir: dir, Interrupted: isInterrupted(dir)}
	state, err := readRecorded(dir)
	if err != nil {
		return report, err
	}
	report.Ready, report.NodesPerPack, report.Host = state.Ready, state.NodesPerPack, state.Host
	report.Resumable = len(state.Resumable()) > 0
	report.Isolation = cmp.Or(state.Isolation, IsolationProcess)
	report.Monitoring = readMonitoring(dir)
	for _, name := range state.Clusters {
		plane := controlPlane(filepath.Join(dir, name))
		if plane.Name == hubName {
			report.Hub = plane
		} else {
			report.Clusters = append(report.Clusters, plane)
		}
	}
	for _, hosted := range state.Hosted {
		plane := controlPlane(hostedDir(dir, hosted.Name))
		plane.UID, plane.Removing = hosted.UID, hosted.Removing
		report.Clusters = append(report.Clusters, plane)
	}
	for _, key := range state.groupKeys() {
		if status, err := process.ReadGroup(groupDir(dir, key)); err == nil {
			report.Groups = append(report.Groups, Group{Name: groupPrefix + key, GroupStatus: status})
		}
	}
	if state.Keeper != nil {
		report.Processes = append(report.Processes, findRunning(dir, *state.Keeper, KeeperName))
	}
	for _, identity := range state.Processes {
		report.Processes = append(report.Processes, findRunning(dir, identity, identity.Name))
		report.Processes[len(report.Processes)-1].Endpoints = state.Endpoints[identity.Name]
	}
	for _, group := range report.Groups {
		for i := range report.Processes {
			if process := &report.Processes[i]; process.Name == group.Name && process.Alive && process.SilentPID == 0 {
				process.SilentPID = group.silentPID()
			}
		}
	}
	return report, nil
}

// readRecorded is ReadState, also before the keeper of a fleet that starts has written its state.
func readRecorded(dir string) (State, error) {
	state, err := ReadState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, startErr := readStart(dir); !errors.Is(startErr, fs.ErrNotExist) {
			return State{Clusters: []string{hubName}}, nil
		}
	}
	return state, err
}

// Planes are all control planes of the fleet, the hub's first.
func (r Report) Planes() []ControlPlane { return append([]ControlPlane{r.Hub}, r.Clusters...) }

// silentPID is the process of a group that answers no checks, 0 if all do.
func (g Group) silentPID() int {
	switch {
	case g.Unanswered > 0:
		return g.Process.PID
	case g.Podhosts.Unanswered > 0:
		return g.Podhosts.PID
	}
	return 0
}

func controlPlane(dir string) ControlPlane {
	plane := ControlPlane{Name: filepath.Base(dir), Dir: dir}
	// A control plane that is not ready, or has ended, has no such file.
	if ready, err := process.ReadReady(dir); err == nil {
		plane.Server, plane.Version, plane.Kubeconfig = ready.Server, ready.Version, ready.AdminKubeconfig
		plane.NodeProcesses = len(ready.HollowNodes())
		if ready.Group != "" {
			plane.Group = groupPrefix + filepath.Base(ready.Group)
		}
		for _, name := range slices.Sorted(maps.Keys(ready.Components)) {
			if problem := ready.Components[name].Problem; problem != "" {
				plane.Problems = append(plane.Problems, name+": "+problem)
			}
		}
	}
	return plane
}

func findRunning(dir string, identity process.Identity, name string) Running {
	running := Running{Name: name, PID: identity.PID, Alive: identity.Alive(), Log: LogFile(dir, name)}
	if identity.IsSuspended() {
		running.SilentPID = identity.PID
	}
	return running
}

// HubKubeconfig is the administrator's kubeconfig of the hub of the fleet in dir.
func HubKubeconfig(dir string) string {
	return filepath.Join(dir, hubName, "kubeconfigs", "admin.conf")
}

// LogFile is where the output of the process of that name goes.
func LogFile(dir, name string) string {
	return filepath.Join(dir, "logs", strings.ReplaceAll(name, " ", "-")+".log")
}
