// Package chaos draws faults and orders at random, for a while, and checks all along that nothing is lost, made
// twice or taken without an order. A run is named by its seed.
package chaos

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var (
	seed       = flag.Uint64("chaos.seed", 11, "what the run draws from; 0 takes the clock")
	duration   = flag.Duration("chaos.for", 0, "how long to keep breaking things, by default 30 seconds with -short and 2 minutes without")
	isolation  = flag.String("chaos.isolation", string(localfleet.IsolationProcess), "what the clusters' control planes share; with shared, hollow nodes share processes too")
	faultNames = flag.String("chaos.faults", "", "the faults to draw from, by their names, separated by commas; by default all")
)

// named are the faults to draw from; empty for all.
var named []fleettest.Fault

func isShared() bool { return *isolation == string(localfleet.IsolationShared) }

// freezeAfter is that of the agents: some faults last longer, some shorter.
const freezeAfter = 6 * time.Second

// nodesPerPack is that of a local fleet.
const nodesPerPack = 25

var fleet *fleettest.Fleet

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	if *duration == 0 {
		*duration = 2 * time.Minute
		if testing.Short() {
			*duration = 30 * time.Second
		}
	}
	var err error
	if named, err = findNamed(*faultNames); err != nil {
		fmt.Fprintln(os.Stderr, "-chaos.faults:", err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

func TestChaos(t *testing.T) {
	fleettest.Run(t, "Chaos")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	programs := localfleet.Programs{AgentArgs: []string{"--freeze-after", freezeAfter.String()}, Isolation: localfleet.Isolation(*isolation)}
	if isShared() {
		programs.NodesPerPack = nodesPerPack
	}
	fleet = fleettest.StartCabled(ctx, localfleet.Options{Clusters: []string{"c1", "c2"}, Programs: programs})
}, NodeTimeout(fleettest.StartTimeout))
