// Package joining starts real agents that join a real hub, and breaks what they do it with.
package joining

import (
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var (
	fleet *fleettest.Fleet
	// one has Machines, two lends its control plane to clusters that only join.
	one, two *localfleet.Member
	// directory takes what the suite's own agents write.
	directory string
)

// Edge case: An agent that pulls (CAPI, number 6520).
func TestJoining(t *testing.T) {
	fleettest.Run(t, "Joining")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	directory, err = os.MkdirTemp("", "hollowfleet-joining-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(os.RemoveAll(directory)).To(Succeed()) })
	fleet = fleettest.Start(ctx, localfleet.Options{
		Clusters: []string{"one", "two"}, Programs: localfleet.Programs{Isolation: localfleet.IsolationShared, HubInGroup: true},
	})
	one, two = fleet.Members[0], fleet.Members[1]
	for _, member := range fleet.Members {
		expectWorking(ctx, member.Name)
	}
}, NodeTimeout(fleettest.StartTimeout+fleettest.Patience))
