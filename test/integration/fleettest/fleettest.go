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

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// Times are generous: a shared machine may be slow, and no spec asserts a speed.
const (
	StartTimeout = 12 * time.Minute
	Patience     = 8 * time.Minute
	Glance       = 200 * time.Millisecond
)

// Fleet is a running fleet.
type Fleet struct {
	*localfleet.Fleet
	// KeepHub lets ExpectReady start a hub again that has ended. A suite in which the hub is to stay away leaves it false.
	KeepHub bool
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
	options.DirID, err = localfleet.Take(options.Dir, true)
	Expect(err).NotTo(HaveOccurred())
	options.Progress = func(line string) { GinkgoWriter.Println(line) }
	limited, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	fleet, err := localfleet.Up(limited, options)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		Expect(fleet.Down()).To(Succeed())
		Expect(options.Dir).NotTo(BeADirectory(), "the fleet removes all that it made")
	})
	DeferCleanup(func() { Expect(keepTraces(options.Dir)).To(Succeed()) })
	DeferCleanup(func() {
		found, err := panics(filepath.Join(options.Dir, "logs"))
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(BeEmpty(), "neither hub nor agents panic")
	})
	return &Fleet{Fleet: fleet}
}

// keepTraces copies the logs of hub, agents and control planes, and what their etcds remember, to a directory of their own
// in $HOLLOWFLEET_KEEP_LOGS, if that is set: to see why a spec failed. The history of an object is in etcd alone.
func keepTraces(dir string) error {
	keep := os.Getenv("HOLLOWFLEET_KEEP_LOGS")
	if keep == "" {
		return nil
	}
	traces := []string{filepath.Join(dir, "logs")}
	for _, of := range []string{"logs", "etcd/member/snap"} {
		planes, err := filepath.Glob(filepath.Join(dir, "*", of))
		if err != nil {
			return fmt.Errorf("looking for %s of the control planes: %w", of, err)
		}
		traces = append(traces, planes...)
	}
	for _, trace := range traces {
		within, err := filepath.Rel(dir, trace)
		if err != nil {
			return fmt.Errorf("what is left in %s: %w", trace, err)
		}
		if err := os.CopyFS(filepath.Join(keep, filepath.Base(dir), within), os.DirFS(trace)); err != nil {
			return fmt.Errorf("keeping %s: %w", trace, err)
		}
	}
	return nil
}
