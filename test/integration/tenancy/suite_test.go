// Package tenancy lets the identities of workload clusters try, on a real hub, everything that is not theirs.
package tenancy

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

func TestTenancy(t *testing.T) {
	fleettest.Run(t, "Tenancy")
}

// hub is shared by all specs, which keep apart by the names of their clusters.
var hub *testHub

var _ = BeforeSuite(func(ctx SpecContext) {
	hub = startHub(ctx)
	hub.settle(ctx)
}, NodeTimeout(fleettest.StartTimeout))
