// Package restored gives real agents a hub that is not the one that they know: put back to an earlier state, new, or
// empty.
package restored

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var (
	fleet *fleettest.Fleet
	// busy has Machines, idle has none and so nothing to lose.
	busy, idle *localfleet.Member
)

func TestRestored(t *testing.T) {
	fleettest.Run(t, "Restored")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	fleet = fleettest.Start(ctx, localfleet.Options{
		Clusters: []string{"busy", "idle"}, Programs: localfleet.Programs{Isolation: localfleet.IsolationShared, HubInGroup: true, AgentArgs: agentArgs, HubArgs: hubArgs},
	})
	busy, idle = fleet.Members[0], fleet.Members[1]
	for _, member := range fleet.Members {
		expectAtWork(ctx, fleet, member.Name)
	}
}, NodeTimeout(fleettest.StartTimeout+fleettest.Patience))
