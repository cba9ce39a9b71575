// Package fleettest has what the integration suites share: a fleet of real processes, and MachineDeployments in it.
package fleettest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/testenv"
)

// Times are generous: a shared machine may be slow, and no spec asserts a speed.
const (
	StartTimeout = 5 * time.Minute
	Patience     = 2 * time.Minute
	Glance       = 200 * time.Millisecond
)

// Fleet is a running fleet.
type Fleet struct {
	*localfleet.Fleet
	// cables are there if it was started with them.
	cables *Cables
}

// Start starts a fleet in a directory of its own and ends it after the suite. Directory and programs of options
// are filled in.
func Start(ctx context.Context, options localfleet.Options) *Fleet {
	GinkgoHelper()
	var err error
	options.BinDir, err = testenv.BinDir()
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"hub", "agent", "simcluster", "hollow-node"} {
		_, err := testenv.Binary(name)
		Expect(err).NotTo(HaveOccurred())
	}
	options.Dir, err = os.MkdirTemp("", "hollowfleet-integration-")
	Expect(err).NotTo(HaveOccurred())
	Expect(os.Chmod(options.Dir, 0o755)).To(Succeed())
	options.Progress = func(line string) { GinkgoWriter.Println(line) }
	limited, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	fleet, err := localfleet.Up(limited, options)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(fleet.Down()).To(Succeed()) })
	DeferCleanup(func() { Expect(keepLogs(options.Dir)).To(Succeed()) })
	return &Fleet{Fleet: fleet}
}

// keepLogs copies the logs of hub, agents and control planes to a directory of their own in $HOLLOWFLEET_KEEP_LOGS, if
// that is set: to see why a spec failed.
func keepLogs(dir string) error {
	keep := os.Getenv("HOLLOWFLEET_KEEP_LOGS")
	if keep == "" {
		return nil
	}
	planes, err := filepath.Glob(filepath.Join(dir, "*", "logs"))
	if err != nil {
		return fmt.Errorf("looking for the control planes' logs: %w", err)
	}
	for _, logs := range append(planes, filepath.Join(dir, "logs")) {
		within, err := filepath.Rel(dir, logs)
		if err != nil {
			return fmt.Errorf("the logs %s: %w", logs, err)
		}
		if err := os.CopyFS(filepath.Join(keep, filepath.Base(dir), within), os.DirFS(logs)); err != nil {
			return fmt.Errorf("keeping the logs %s: %w", logs, err)
		}
	}
	return nil
}
