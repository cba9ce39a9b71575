package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/atomicfile"
)

// Layout is where things are in a data directory.
type Layout struct {
	root string
}

// NewLayout returns the layout of the data directory, with an absolute path.
func NewLayout(dataDir string) (Layout, error) {
	if dataDir == "" {
		return Layout{}, fmt.Errorf("%w: --data-dir is needed", ErrInvalid)
	}
	root, err := filepath.Abs(dataDir)
	if err != nil {
		return Layout{}, fmt.Errorf("finding the data directory: %w", err)
	}
	return Layout{root: root}, nil
}

// Root is the data directory.
func (l Layout) Root() string { return l.root }

// ReadyFile is there while the cluster is ready.
func (l Layout) ReadyFile() string { return filepath.Join(l.root, "ready.json") }

// AdminKubeconfig is the kubeconfig in group system:masters.
func (l Layout) AdminKubeconfig() string { return l.kubeconfigPath("admin") }

// CAFile is the certificate of the cluster's authority.
func (l Layout) CAFile() string { return l.pkiPath("ca.crt") }

// LogFile is a component's log.
func (l Layout) LogFile(component string) string {
	return filepath.Join(l.root, "logs", component+".log")
}

func (l Layout) stateFile() string          { return filepath.Join(l.root, "cluster.json") }
func (l Layout) lockFile() string           { return filepath.Join(l.root, "lock") }
func (l Layout) runDir() string             { return filepath.Join(l.root, "run") }
func (l Layout) runDirPointer() string      { return filepath.Join(l.root, "run-dir") }
func (l Layout) caKey() string              { return l.pkiPath("ca.key") }
func (l Layout) etcdDir() string            { return filepath.Join(l.root, "etcd") }
func (l Layout) podhostDir() string         { return filepath.Join(l.root, "podhost") }
func (l Layout) pkiPath(file string) string { return filepath.Join(l.root, "pki", file) }

// clientPair is where a user's certificate and key are, without .crt and .key.
func (l Layout) clientPair(user string) string { return l.pkiPath(user + "-client") }

func (l Layout) kubeconfigPath(user string) string {
	return filepath.Join(l.root, "kubeconfigs", user+".conf")
}

// makeDirectories makes the directories, readable by the owner only.
func (l Layout) makeDirectories() error {
	if err := l.takeRoot(); err != nil {
		return err
	}
	for _, dir := range []string{l.root, l.pkiPath(""), filepath.Dir(l.AdminKubeconfig()), filepath.Dir(l.LogFile("")), l.etcdDir(), l.podhostDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making the data directory: %w", err)
		}
	}
	return nil
}

// state is what a start remembers of the earlier ones.
type state struct {
	Name   string `json:"name"`
	Listen string `json:"listen"`
	// APIServerPort is the port of the last start.
	APIServerPort int `json:"apiserverPort"`
	// APIServerPortGiven says that a user asked for this port, so that it
	// may not be replaced by another.
	APIServerPortGiven bool `json:"apiserverPortGiven"`
	// PodCIDR is where Nodes have their pod CIDRs. It stays as it is: the
	// controller manager does not start with Nodes whose pod CIDR is outside.
	PodCIDR string `json:"podCIDR,omitempty"`
	// PKIDir has the certificates if another program makes them.
	PKIDir string `json:"pkiDir,omitempty"`
	// EmulatedVersions are the Kubernetes minors that the components have run last, by component.
	EmulatedVersions map[string]string `json:"emulatedVersions,omitempty"`
}

// isNew reports whether no start has recorded anything in the data directory.
func (l Layout) isNew() bool {
	_, err := os.Stat(l.stateFile())
	return errors.Is(err, fs.ErrNotExist)
}

// readState returns an empty state if the data directory is new.
func (l Layout) readState() (state, error) {
	var recorded state
	err := readJSON(l.stateFile(), &recorded)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	return recorded, err
}

func readJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

func writeJSON(path string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return writeFile(path, append(content, '\n'))
}

// writeFile replaces the file in one step. Only the owner can read it.
func writeFile(path string, content []byte) error {
	return atomicfile.Write(path, content, 0o600)
}
