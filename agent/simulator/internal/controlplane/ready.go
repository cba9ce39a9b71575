package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

// Ready is the content of ready.json, which is there while the cluster is
// ready. If the supervisor is killed the file stays behind; SupervisorPID
// tells.
type Ready struct {
	Name string `json:"name"`
	// Server is the API server's URL.
	Server          string `json:"server"`
	AdminKubeconfig string `json:"adminKubeconfig"`
	CAFile          string `json:"caFile"`
	SupervisorPID   int    `json:"supervisorPID"`
	// Components are the components that this cluster has, by name.
	Components map[string]ReadyComponent `json:"components"`
	// PodhostNode is the podhost's Node, empty without a podhost.
	PodhostNode string `json:"podhostNode,omitempty"`
	Version     string `json:"version"`
	// Isolation is "shared" if the components share processes with other clusters', and Group the directory of
	// these clusters' group.
	Isolation string `json:"isolation"`
	Group     string `json:"group,omitempty"`
}

// ReadyComponent is what ready.json says of one component.
type ReadyComponent struct {
	// PID is 0 while the component is down.
	PID int `json:"pid"`
	// HealthURL answers 200 when the component is healthy. It is empty for
	// components that have no TCP port.
	HealthURL string `json:"healthURL,omitempty"`
	Log       string `json:"log"`
	// EmulatedVersion is the Kubernetes minor that it runs as; empty for components without one.
	EmulatedVersion string `json:"emulatedVersion,omitempty"`
	// Problem says why a component that runs cannot do all of its job, such as an etcd out of space.
	Problem string `json:"problem,omitempty"`
}

// Status is what the control socket tells about a cluster.
type Status struct {
	Name          string `json:"name"`
	DataDir       string `json:"dataDir"`
	Server        string `json:"server"`
	Version       string `json:"version"`
	SupervisorPID int    `json:"supervisorPID"`
	// Isolation and Group are those of ready.json.
	Isolation string `json:"isolation"`
	Group     string `json:"group,omitempty"`
	// Started says that the start is complete and ready.json is written.
	Started bool `json:"started"`
	// Healthy says that the start is complete and every component is healthy now.
	Healthy    bool                       `json:"healthy"`
	Components map[string]ComponentStatus `json:"components"`
}

// ComponentStatus is the status of one component.
type ComponentStatus struct {
	process.Status
	Healthy bool `json:"healthy"`
	// Message says why the component is not healthy.
	Message   string `json:"message,omitempty"`
	HealthURL string `json:"healthURL,omitempty"`
	Log       string `json:"log"`
	// EmulatedVersion is the Kubernetes minor that it runs as; empty for components without one.
	EmulatedVersion string `json:"emulatedVersion,omitempty"`
}

// ReadReady reads the data directory's ready.json. The error wraps
// ErrNotRunning if there is none.
func ReadReady(dataDir string) (Ready, error) {
	layout, err := NewLayout(dataDir)
	if err != nil {
		return Ready{}, err
	}
	var ready Ready
	err = readJSON(layout.ReadyFile(), &ready)
	if errors.Is(err, fs.ErrNotExist) {
		return Ready{}, fmt.Errorf("%w: there is no %s", ErrNotRunning, layout.ReadyFile())
	}
	return ready, err
}

func (l Layout) removeReady() error {
	if err := os.Remove(l.ReadyFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing an old ready file: %w", err)
	}
	return nil
}
