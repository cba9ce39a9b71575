// Package integration runs the real hub, real agents and real hollow nodes against real control planes.
package integration

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/hollowfleet/hollowfleet/internal/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/testenv"
)

// Times are generous: a shared machine may be slow, and no spec asserts a speed.
const (
	startTimeout = 5 * time.Minute
	patience     = 2 * time.Minute
	glance       = 200 * time.Millisecond
)

// fleet is shared by all specs, which keep apart by the names of their MachineDeployments.
var fleet *localfleet.Fleet

func TestIntegration(t *testing.T) {
	log.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(glance)
	RegisterFailHandler(Fail)
	RunSpecs(t, "Fleet")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	bin, err := testenv.BinDir()
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"hub", "agent", "simcluster", "hollow-node"} {
		_, err := testenv.Binary(name)
		Expect(err).NotTo(HaveOccurred())
	}
	dir, err := os.MkdirTemp("", "hollowfleet-integration-")
	Expect(err).NotTo(HaveOccurred())
	Expect(os.Chmod(dir, 0o755)).To(Succeed())
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	fleet, err = localfleet.Up(limited, localfleet.Options{
		Dir: dir, BinDir: bin, Clusters: []string{"c1", "c2"},
		Progress: func(line string) { GinkgoWriter.Println(line) },
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(fleet.Down()).To(Succeed()) })
}, NodeTimeout(startTimeout))
