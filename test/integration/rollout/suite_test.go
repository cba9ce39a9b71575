// Package rollout rolls MachineDeployments of real hollow nodes out, with a real hub and agent.
package rollout

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// fleet is shared by all specs, which keep apart by the names of their MachineDeployments.
var fleet *fleettest.Fleet

func TestRollout(t *testing.T) {
	fleettest.Run(t, "Rollout")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	fleet = fleettest.Start(ctx, localfleet.Options{Clusters: []string{"c1"}})
}, NodeTimeout(fleettest.StartTimeout))
