// Package hosted kills, freezes and hurries what makes simulated clusters on this machine, and holds what is there at the end against what
// was seen by an observer that no part of the product helps.
package hosted

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// fleet is the local fleet of all specs: a hub and a host. Each spec has a set of its own, which is gone at its end.
var fleet *localFleet

func TestHosted(t *testing.T) {
	fleettest.Run(t, "Hosted")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	bin, err := testenv.BinDir()
	Expect(err).NotTo(HaveOccurred())
	fleet = startFleet(ctx, bin)
}, NodeTimeout(fleettest.StartTimeout))
