package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// processes can be killed and stopped, networks cut and slowed. Some are both: the process, and its connections.
var (
	processes = []fleettest.Part{
		fleettest.Hub, fleettest.HubServer, fleettest.HubEtcd, fleettest.HubManager,
		fleettest.Agent, fleettest.TargetServer, fleettest.TargetEtcd, fleettest.TargetManager,
	}
	// sharedProcesses are those of a fleet whose control planes share a process, and whose nodes do.
	sharedProcesses = []fleettest.Part{
		fleettest.Hub, fleettest.HubServer, fleettest.HubEtcd, fleettest.HubManager, fleettest.Agent,
		fleettest.Group, fleettest.Group, fleettest.Pack, fleettest.Pack,
	}
	networks = []fleettest.Part{
		fleettest.Hub, fleettest.HubServer, fleettest.HubEtcd,
		fleettest.Agent, fleettest.TargetServer, fleettest.TargetEtcd, fleettest.HostLink,
	}
	signals   = []fleettest.Way{fleettest.Kill, fleettest.Stop}
	blackouts = []fleettest.Way{
		fleettest.Refuse, fleettest.BlackHole, fleettest.BlackHoleUp, fleettest.BlackHoleDown, fleettest.Slow, fleettest.Crawl,
	}
)

// fault is one that can be drawn, with the cluster that it is in.
type fault struct {
	fleettest.Fault
	member *localfleet.Member
}

func (f fault) String() string {
	if f.Part.Shared() {
		return f.Fault.String()
	}
	return fmt.Sprintf("%s in %s", f.Fault, f.member.Name)
}

// draw draws a fault: a signal as often as something that happens to networks. If faults are named, it draws one of these.
func draw(random *rand.Rand) fault {
	parts, ways := processes, signals
	if isShared() {
		parts = sharedProcesses
	}
	if random.IntN(2) == 0 {
		parts, ways = networks, blackouts
	}
	drawn := fleettest.Fault{Way: ways[random.IntN(len(ways))], Part: parts[random.IntN(len(parts))]}
	if len(named) > 0 {
		drawn = named[random.IntN(len(named))]
	}
	return fault{Fault: drawn, member: fleet.Members[random.IntN(len(fleet.Members))]}
}

// findNamed returns the faults with these names, separated by commas.
func findNamed(names string) ([]fleettest.Fault, error) {
	possible := map[string]fleettest.Fault{}
	for _, way := range slices.Concat(signals, blackouts) {
		for _, part := range slices.Concat(processes, sharedProcesses, networks) {
			one := fleettest.Fault{Way: way, Part: part}
			possible[one.String()] = one
		}
	}
	var found []fleettest.Fault
	for name := range strings.SplitSeq(names, ",") {
		one, ok := possible[strings.TrimSpace(name)]
		if name != "" && !ok {
			return nil, fmt.Errorf("there is no fault %q, possible are: %s", name, strings.Join(slices.Sorted(maps.Keys(possible)), ", "))
		}
		if ok {
			found = append(found, one)
		}
	}
	return found, nil
}

// rebootsNodes reports whether nodes end and start again.
func (f fault) rebootsNodes() bool { return f.Part == fleettest.Pack && f.Way == fleettest.Kill }

// begin starts the fault. What another fault has ended already cannot be broken: then there is nothing to do, nor to
// mend.
func (f fault) begin(ctx context.Context) (end func(context.Context)) {
	mend, err := fleet.Break(ctx, f.Fault, f.member)
	say("%s: %v", f, err)
	return func(ctx context.Context) {
		if err != nil {
			return
		}
		if err := mend(ctx); err != nil {
			say("mending %s: %v", f, err)
		}
	}
}

// supervise starts hub and agents again when they have ended.
func supervise(ctx context.Context) {
	if err := fleet.Supervise(ctx); err != nil {
		GinkgoWriter.Println("starting again what has ended:", err)
	}
}
