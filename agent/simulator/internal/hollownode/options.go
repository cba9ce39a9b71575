// Package hollownode assembles one hollow kubelet: the kubelet's own code around a fake container runtime,
// registered as a real Node under an identity of its own.
package hollownode

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/identity"
)

// ErrConfiguration is wrapped by every error that another start with the same files and flags would meet
// again.
var ErrConfiguration = errors.New("bad configuration")

// Options are what a hollow-node process is started with.
type Options struct {
	// ConfigDir has the files of the contract: the configuration and the bootstrap kubeconfig.
	ConfigDir string
	// StateDir is the only place that is written to. What is in it is found again by a restarted process.
	StateDir string
	// BindAddress is where health is served, and unless it is unspecified the Node's internal address.
	BindAddress string
	// HealthPort is the port of /healthz and /readyz.
	HealthPort int
	// KubeletPort is the port of the kubelet's API, if the configuration wants one; 0 lets the kernel choose.
	KubeletPort int
	// DisruptionsFile has the plan of what goes wrong on the node, and need not be there. Empty means that nothing does.
	DisruptionsFile string
	// SharedDir is a directory for what all nodes of a process have in common; it may be relative. Empty if this is the only node of its process.
	SharedDir string
	// Kill lets the node end as if its process were killed, with ErrKilled, when it is closed. May be nil.
	Kill <-chan struct{}
	// Started is called once the process can run the node. May be nil.
	Started func()
	// KillProcess lets a disruption of type Kill end the whole process, and not only the node.
	KillProcess bool
	// Profiling adds /debug/pprof/ to the health port.
	Profiling bool
}

// loadConfiguration checks the options and reads the configuration. All its errors wrap ErrConfiguration.
func (o Options) loadConfiguration() (contract.Configuration, error) {
	configuration, err := o.readConfiguration()
	if err != nil {
		return contract.Configuration{}, fmt.Errorf("%w: %w", ErrConfiguration, err)
	}
	return configuration, nil
}

func (o Options) readConfiguration() (contract.Configuration, error) {
	if o.ConfigDir == "" || o.StateDir == "" {
		return contract.Configuration{}, errors.New("a configuration directory and a state directory are required")
	}
	if net.ParseIP(o.BindAddress) == nil {
		return contract.Configuration{}, fmt.Errorf("bind address: want an IP address, got %q", o.BindAddress)
	}
	path := filepath.Join(o.ConfigDir, contract.ConfigFileName)
	data, err := os.ReadFile(path)
	if err != nil {
		return contract.Configuration{}, err
	}
	configuration, err := contract.Parse(data)
	if err != nil {
		return contract.Configuration{}, fmt.Errorf("%s: %w", path, err)
	}
	if err := checkConfiguration(configuration); err != nil {
		return contract.Configuration{}, fmt.Errorf("%s: %w", path, err)
	}
	return configuration, identity.CheckBootstrap(o.bootstrapKubeconfig())
}

func (o Options) bootstrapKubeconfig() string {
	return filepath.Join(o.ConfigDir, contract.BootstrapKubeconfigFileName)
}
