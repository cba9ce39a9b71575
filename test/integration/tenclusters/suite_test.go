// Package tenclusters measures what clusters cost each other.
package tenclusters

import (
	"fmt"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

const clusters = 10

var (
	fleet *fleettest.Fleet
	// metricsAddress is where the hub serves its metrics.
	metricsAddress string
)

func TestTenClusters(t *testing.T) {
	fleettest.Run(t, "Ten clusters")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	metricsAddress, err = testenv.FreeAddress()
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for i := range clusters {
		names = append(names, fmt.Sprintf("c%d", i+1))
	}
	fleet = fleettest.Start(ctx, localfleet.Options{
		Clusters: names,
		Programs: localfleet.Programs{
			Isolation: localfleet.IsolationShared,
			HubArgs:   []string{"--metrics-address", metricsAddress, "--heartbeat-period", "1s", "--heartbeat-grace", "6s"},
		},
	})
}, NodeTimeout(fleettest.StartTimeout))
