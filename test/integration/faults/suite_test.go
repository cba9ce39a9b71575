// Package faults breaks parts of a running fleet and watches that nothing is lost or made twice.
package faults

import (
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/hollowfleet/hollowfleet/internal/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// residents is a MachineDeployment of each cluster that no spec touches: its Machines must outlive every fault.
const residents = "resident"

var (
	fleet *fleettest.Fleet
	// broken is the cluster that the specs break, other the one that must not notice.
	broken, other *localfleet.Member
	// onlookers watch the residents.
	onlookers []*fleettest.Witness
)

func TestFaults(t *testing.T) {
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(fleettest.Patience)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyPollingInterval(fleettest.Glance)
	RegisterFailHandler(Fail)
	RunSpecs(t, "Faults")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	fleet = fleettest.Start(ctx, localfleet.Options{
		Clusters: []string{"c1", "c2"}, AgentArgs: []string{"--freeze-after", freezeAfter.String()},
	})
	broken, other = fleet.Members[0], fleet.Members[1]
	for _, member := range fleet.Members {
		fleet.NewDeployment(ctx, member, residents, 1)
	}
	for _, member := range fleet.Members {
		fleet.ExpectReady(ctx, member, residents, 1)
		onlookers = append(onlookers, fleet.Watch(ctx, member, residents))
	}
}, NodeTimeout(fleettest.StartTimeout+fleettest.Patience))

// Whatever a spec broke, the fleet mends itself, and the residents have not noticed. This is looked at after the
// spec's own cleanups, which end its faults.
var _ = BeforeEach(func() {
	DeferCleanup(func(ctx SpecContext) {
		expectHealthy(ctx)
		for _, onlooker := range onlookers {
			onlooker.Expect(ctx, 1, 0)
		}
	}, NodeTimeout(2*fleettest.Patience))
})
