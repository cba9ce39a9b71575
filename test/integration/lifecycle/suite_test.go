// Package lifecycle drains, updates and removes real hollow nodes under workloads that mind.
package lifecycle

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// fleet is shared by all specs, which keep apart by the names of their MachineDeployments.
var fleet *fleettest.Fleet

func TestLifecycle(t *testing.T) {
	fleettest.Run(t, "Lifecycle")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	fleet = fleettest.Start(ctx, localfleet.Options{Clusters: []string{"c1"}})
}, NodeTimeout(fleettest.StartTimeout))
