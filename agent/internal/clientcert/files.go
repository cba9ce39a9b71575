package clientcert

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
)

// Files follows a kubeconfig that another program renews, and the files that it names.
type Files struct {
	path  string
	clock clock.WithTicker
	log   logr.Logger
	// accept is asked before a change is followed: whether the identity is still that of the cluster's agent.
	accept func(context.Context, *rest.Config) error
	// refused is the digest of a content that is not to be followed, and refusal is why. The hub is not asked about it again.
	refused [sha256.Size]byte
	refusal error

	mu      sync.Mutex
	config  *rest.Config
	digest  [sha256.Size]byte
	version uint64
}

// NewFiles reads the kubeconfig at path. Run makes it follow what accept lets pass; an error of another kind than
// *IdentityError means that this is not known yet.
func NewFiles(path string, follow clock.WithTicker, log logr.Logger, accept func(context.Context, *rest.Config) error) (*Files, error) {
	f := &Files{path: path, clock: follow, log: log, accept: accept}
	config, digest, err := f.readConfig()
	if err != nil {
		return f, err
	}
	f.adoptConfig(config, digest)
	return f, nil
}

// Current implements clients.Source.
func (f *Files) Current() (*rest.Config, uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.config, f.version, nil
}

// Answered implements clients.Source: who keeps the files keeps the credential.
func (f *Files) Answered(uint64, int) {}

// Run follows the files until ctx ends. Polling also sees what a mounted Secret does, which swaps directories.
func (f *Files) Run(ctx context.Context) error {
	return poll.Loop{Doing: "Following the hub's kubeconfig", Do: f.followChange, Every: recheckInterval, Runtime: poll.Runtime{Clock: f.clock, Log: f.log}}.Run(ctx)
}

// followChange follows a change of the files, if it is of any use and leaves the agent who it is.
func (f *Files) followChange(ctx context.Context) error {
	config, digest, err := f.readConfig()
	if err != nil {
		return err
	}
	f.mu.Lock()
	known := f.digest == digest
	f.mu.Unlock()
	if known {
		return nil
	}
	if f.refusal != nil && f.refused == digest {
		return f.refusal
	}
	bounded, cancel := context.WithTimeout(ctx, longestRound)
	defer cancel()
	if err := f.accept(bounded, config); err != nil {
		err = fmt.Errorf("following kubeconfig %q: %w", f.path, err)
		if another := (*IdentityError)(nil); errors.As(err, &another) {
			f.refused, f.refusal = digest, err
		}
		return err
	}
	f.adoptConfig(config, digest)
	f.log.Info("Following a change of the hub's kubeconfig", "kubeconfig", f.path)
	return nil
}

func (f *Files) adoptConfig(config *rest.Config, digest [sha256.Size]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.config, f.digest = config, digest
	f.version++
}

// readConfig reads what the files say now, and a digest of it.
func (f *Files) readConfig() (config *rest.Config, digest [sha256.Size]byte, err error) {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return nil, digest, fmt.Errorf("loading kubeconfig %q: %w", f.path, err)
	}
	if config, err = clientcmd.BuildConfigFromFlags("", f.path); err != nil {
		return nil, digest, fmt.Errorf("loading kubeconfig %q: %w", f.path, err)
	}
	if err := loadFiles(config); err != nil {
		return nil, digest, fmt.Errorf("loading kubeconfig %q: %w", f.path, err)
	}
	hash := sha256.New()
	for _, part := range [][]byte{content, config.CAData, config.CertData, config.KeyData, []byte(config.BearerToken)} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return config, [sha256.Size]byte(hash.Sum(nil)), nil
}

// loadFiles reads the files that config names, and fails if a certificate and its key do not match: one of the two may
// have been written and the other not yet.
func loadFiles(config *rest.Config) error {
	if err := rest.LoadTLSFiles(config); err != nil {
		return err
	}
	config.CAFile, config.CertFile, config.KeyFile = "", "", ""
	if config.BearerTokenFile != "" {
		token, err := os.ReadFile(config.BearerTokenFile)
		if err != nil {
			return err
		}
		config.BearerToken, config.BearerTokenFile = strings.TrimSpace(string(token)), ""
	}
	_, err := rest.TLSConfigFor(config)
	return err
}
