// Package fleet rolls the sample MachineFleet out over clusters of real processes, and breaks these in the middle.
package fleet

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// fleet is shared by all specs, which follow each other: each starts where all clusters have the template of the one before.
var fleet *fleettest.Fleet

func TestFleet(t *testing.T) {
	fleettest.Run(t, "Fleet")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	fleet = fleettest.StartCabled(ctx, localfleet.Options{
		Clusters: []string{"c1", "c2", "c3", "c4"},
		Programs: localfleet.Programs{Isolation: localfleet.IsolationShared, HubInGroup: true, HubArgs: []string{"--heartbeat-period", "1s", "--heartbeat-grace", "8s"}},
	})
	fleet.KeepHub = true
	for _, member := range fleet.Members {
		for _, object := range localfleet.Workers(member.Name, 1, "") {
			Eventually(ctx, func(ctx SpecContext) error { return fleet.HubClient.Create(ctx, object) }).WithContext(ctx).
				Should(Succeed(), "the cluster's namespace must come")
		}
	}
	for _, member := range fleet.Members {
		fleet.ExpectReady(ctx, member, localfleet.WorkersName, 1)
	}
}, NodeTimeout(fleettest.StartTimeout))
