package localfleet

import (
	"path/filepath"
	"strings"

	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

// Report is what there is of a fleet right now.
type Report struct {
	Dir string `json:"dir"`
	// Ready tells that the fleet has come up.
	Ready bool `json:"ready"`
	// Hub is the hub's control plane, Clusters are those of the workload clusters.
	Hub      ControlPlane   `json:"hub"`
	Clusters []ControlPlane `json:"clusters"`
	// Processes are those that run the fleet.
	Processes []Running `json:"processes"`
}

// ControlPlane is one simulated cluster. One that is not ready has no server.
type ControlPlane struct {
	Name       string `json:"name"`
	Server     string `json:"server,omitempty"`
	Version    string `json:"version,omitempty"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
}

// Running is one process of a fleet.
type Running struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	Alive bool   `json:"alive"`
	Log   string `json:"log,omitempty"`
	Endpoints
}

// ReadReport reports on the fleet in dir.
func ReadReport(dir string) (Report, error) {
	report := Report{Dir: dir}
	state, err := ReadState(dir)
	if err != nil {
		return report, err
	}
	report.Ready = state.Ready
	for _, name := range state.Clusters {
		plane := controlPlane(filepath.Join(dir, name))
		if plane.Name == hubName {
			report.Hub = plane
		} else {
			report.Clusters = append(report.Clusters, plane)
		}
	}
	if state.Keeper != nil {
		report.Processes = append(report.Processes, findRunning(dir, *state.Keeper, KeeperName))
	}
	for _, identity := range state.Processes {
		report.Processes = append(report.Processes, findRunning(dir, identity, identity.Name))
		report.Processes[len(report.Processes)-1].Endpoints = state.Endpoints[identity.Name]
	}
	return report, nil
}

func controlPlane(dir string) ControlPlane {
	plane := ControlPlane{Name: filepath.Base(dir)}
	// A control plane that is not ready, or has ended, has no such file.
	if ready, err := process.ReadReady(dir); err == nil {
		plane.Server, plane.Version, plane.Kubeconfig = ready.Server, ready.Version, ready.AdminKubeconfig
	}
	return plane
}

func findRunning(dir string, identity process.Identity, name string) Running {
	return Running{Name: name, PID: identity.PID, Alive: identity.Alive(), Log: LogFile(dir, name)}
}

// LogFile is where the output of the process of that name goes.
func LogFile(dir, name string) string {
	return filepath.Join(dir, "logs", strings.ReplaceAll(name, " ", "-")+".log")
}
