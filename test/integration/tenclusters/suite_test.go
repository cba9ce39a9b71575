// Package tenclusters measures what clusters cost each other.
package tenclusters

import (
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/hollowfleet/hollowfleet/internal/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/testenv"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

const clusters = 10

var (
	fleet *fleettest.Fleet
	// metricsAddress is where the hub serves its metrics.
	metricsAddress string
)

func TestTenClusters(t *testing.T) {
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(fleettest.Patience)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyPollingInterval(fleettest.Glance)
	RegisterFailHandler(Fail)
	RunSpecs(t, "Ten clusters")
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
		HubArgs:  []string{"--metrics-address", metricsAddress, "--heartbeat-period", "1s", "--heartbeat-grace", "6s"},
	})
}, NodeTimeout(fleettest.StartTimeout))
