// Package chaos draws faults and orders at random, for a while, and checks all along that nothing is lost, made
// twice or taken without an order. A run is named by its seed.
package chaos

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/hollowfleet/hollowfleet/internal/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var (
	seed     = flag.Uint64("chaos.seed", 11, "what the run draws from; 0 takes the clock")
	duration = flag.Duration("chaos.for", 2*time.Minute, "how long to go on breaking things")
)

// freezeAfter is that of the agents: some faults last longer, some shorter.
const freezeAfter = 6 * time.Second

var fleet *fleettest.Fleet

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	os.Exit(m.Run())
}

func TestChaos(t *testing.T) {
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(fleettest.Patience)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyPollingInterval(fleettest.Glance)
	RegisterFailHandler(Fail)
	RunSpecs(t, "Chaos")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	fleet = fleettest.StartCabled(ctx, localfleet.Options{
		Clusters: []string{"c1", "c2"}, AgentArgs: []string{"--freeze-after", freezeAfter.String()},
	})
}, NodeTimeout(fleettest.StartTimeout))
