package credential

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
)

// Files follows a kubeconfig that somebody else keeps, and the files that it names.
type Files struct {
	path  string
	clock clock.WithTicker
	log   logr.Logger
	// failing: the last look failed, which the log was told.
	failing bool

	mu      sync.Mutex
	config  *rest.Config
	digest  [sha256.Size]byte
	version uint64
}

// NewFiles reads the kubeconfig at path. Run makes it follow.
func NewFiles(path string, follow clock.WithTicker, log logr.Logger) (*Files, error) {
	f := &Files{path: path, clock: follow, log: log}
	_, err := f.read()
	return f, err
}

// Current implements connect.Source.
func (f *Files) Current() (*rest.Config, uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.config, f.version, nil
}

// Answered implements connect.Source: who keeps the files keeps the credential.
func (f *Files) Answered(uint64, int) {}

// Run follows the files until ctx ends. Polling also sees what a mounted Secret does, which swaps directories.
func (f *Files) Run(ctx context.Context) error {
	ticker := f.clock.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		changed, err := f.read()
		switch {
		case err != nil && !f.failing:
			f.log.Error(err, "Following the hub's kubeconfig failed; going on with what was read last")
		case changed:
			f.log.Info("Following a change of the hub's kubeconfig", "kubeconfig", f.path)
		}
		f.failing = err != nil
	}
}

// read takes in what the files say now, if it is of any use.
func (f *Files) read() (changed bool, err error) {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return false, fmt.Errorf("loading kubeconfig %q: %w", f.path, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", f.path)
	if err != nil {
		return false, fmt.Errorf("loading kubeconfig %q: %w", f.path, err)
	}
	if err := load(config); err != nil {
		return false, fmt.Errorf("loading kubeconfig %q: %w", f.path, err)
	}
	hash := sha256.New()
	for _, part := range [][]byte{content, config.CAData, config.CertData, config.KeyData, []byte(config.BearerToken)} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	digest := [sha256.Size]byte(hash.Sum(nil))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.config != nil && f.digest == digest {
		return false, nil
	}
	f.config, f.digest = config, digest
	f.version++
	return true, nil
}

// load reads the files that config names, and fails if a certificate and its key do not match: one of the two may
// have been written and the other not yet.
func load(config *rest.Config) error {
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
