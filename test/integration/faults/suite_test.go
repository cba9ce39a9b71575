// Package faults breaks parts of a running fleet and watches that nothing is lost or made twice.
package faults

import (
	"flag"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// residents is a MachineDeployment of each cluster that no spec touches: its Machines must outlive every fault.
const residents = "resident"

// clusters is how many there are: one for each activity. The specs of a short run have fewer, and still as many as there are parts
// of a cluster to break.
var clusters = len(activities)

var (
	seed      = flag.Uint64("faults.seed", 11, "what the faults are drawn from; 0 takes the clock")
	wholeFlag = flag.Bool("faults.whole", false, "break in all ways, instead of some that are drawn")
	isolation = flag.String("faults.isolation", string(localfleet.IsolationProcess), "what the clusters' control planes share; with shared, what is killed or paused of one is the process of all, and hollow nodes share processes too")
)

// nodesPerPack is that of a local fleet whose control planes share a process.
const nodesPerPack = 25

func isShared() bool { return *isolation == string(localfleet.IsolationShared) }

// skipShared leaves a spec out that breaks one control plane or node alone.
func skipShared() {
	if isShared() {
		Skip("control planes and hollow nodes share processes")
	}
}

var (
	fleet *fleettest.Fleet
	// broken is the cluster that the specs break, other the one that must not notice.
	broken, other *localfleet.Member
	// onlookers watch the residents.
	onlookers []*fleettest.Witness
)

// Edge case: Fault injection at scale (CAPI, number 13305). Also: test/integration/chaos TestChaos.
func TestFaults(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	if testing.Short() {
		clusters = len(ownParts)
		t.Cleanup(func() { clusters = len(activities) })
	}
	fleettest.Run(t, "Faults")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	programs := localfleet.Programs{
		HubArgs:   []string{"--heartbeat-period", "1s", "--heartbeat-grace", "8s"},
		AgentArgs: []string{"--freeze-after", freezeAfter.String()},
		Isolation: localfleet.Isolation(*isolation),
	}
	if isShared() {
		programs.NodesPerPack = nodesPerPack
	}
	fleet = fleettest.StartCabled(ctx, localfleet.Options{Clusters: names(), Programs: programs})
	fleet.KeepHub = true
	broken, other = fleet.Members[0], fleet.Members[1]
	for _, member := range fleet.Members {
		fleet.NewDeployment(ctx, member, residents, 1)
	}
	for _, member := range fleet.Members {
		fleet.ExpectReady(ctx, member, residents, 1)
		onlookers = append(onlookers, fleet.Watch(ctx, member, residents))
	}
}, NodeTimeout(fleettest.StartTimeout+fleettest.Patience))

func names() []string {
	var all []string
	for i := range clusters {
		all = append(all, fmt.Sprintf("c%d", i+1))
	}
	return all
}

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
