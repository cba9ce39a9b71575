// Package integration runs the real hub, real agents and real hollow nodes against real control planes.
package integration

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// fleet is shared by all specs, which keep apart by the names of their MachineDeployments.
var fleet *fleettest.Fleet

func TestIntegration(t *testing.T) {
	fleettest.Run(t, "Fleet")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	args := startReceiver()
	fleet = fleettest.Start(ctx, localfleet.Options{Clusters: []string{"c1", "c2"}, Programs: localfleet.Programs{HubArgs: args, AgentArgs: args}})
}, NodeTimeout(fleettest.StartTimeout))
