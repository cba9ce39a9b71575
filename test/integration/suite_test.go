// Package integration runs the real hub, real agents and real hollow nodes against real control planes.
package integration

import (
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/hollowfleet/hollowfleet/internal/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// fleet is shared by all specs, which keep apart by the names of their MachineDeployments.
var fleet *fleettest.Fleet

func TestIntegration(t *testing.T) {
	log.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(fleettest.Patience)
	SetDefaultEventuallyPollingInterval(fleettest.Glance)
	RegisterFailHandler(Fail)
	RunSpecs(t, "Fleet")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	fleet = fleettest.Start(ctx, localfleet.Options{Clusters: []string{"c1", "c2"}})
}, NodeTimeout(fleettest.StartTimeout))
