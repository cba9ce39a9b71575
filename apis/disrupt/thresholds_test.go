package disrupt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
)

// zoneOf returns the nodes of a zone, the first of which are not ready, and the names of those that are hit.
func zoneOf(zone string, nodes, notReady, hit int) (states []disrupt.NodeState, names []string) {
	for i := range nodes {
		name := fmt.Sprintf("%s-%d", zone, i)
		states = append(states, disrupt.NodeState{Name: name, Zone: zone, Ready: i >= notReady})
		if i >= notReady && i < notReady+hit {
			names = append(names, name)
		}
	}
	return states, names
}

func TestThresholdsOfAZone(t *testing.T) {
	other, _ := zoneOf("other", 5, 0, 0)
	for name, test := range map[string]struct {
		nodes, notReady, hit int
		want                 disrupt.ZoneState
		stop                 bool
		warning              string
	}{
		"no node is hit":              {20, 0, 0, disrupt.ZoneNormal, false, ""},
		"54 of 100":                   {100, 0, 54, disrupt.ZoneNormal, false, ""},
		"55 of 100, a large zone":     {100, 0, 55, disrupt.ZonePartialDisruption, false, `55 of 100 nodes of zone "a" would not be Ready, at least 55%: the node-lifecycle controller would evict pods from one node in 100 s`},
		"51 nodes are a large zone":   {51, 0, 40, disrupt.ZonePartialDisruption, false, "one node in 100 s"},
		"50 nodes are a small zone":   {50, 0, 40, disrupt.ZonePartialDisruption, true, "evict no pods"},
		"2 of 3 are too few to count": {3, 0, 2, disrupt.ZoneNormal, false, ""},
		"3 of 5":                      {5, 0, 3, disrupt.ZonePartialDisruption, true, "3 of 5 nodes"},
		"3 of 6":                      {6, 0, 3, disrupt.ZoneNormal, false, ""},
		"nodes that are down already": {10, 5, 1, disrupt.ZonePartialDisruption, true, "6 of 10 nodes"},
		"crossed already":             {10, 6, 1, disrupt.ZonePartialDisruption, true, ""},
		"all":                         {10, 0, 10, disrupt.ZoneFullDisruption, false, "10 of 10 nodes of zone \"a\" would not be Ready, which is all of them"},
		"the only one":                {1, 0, 1, disrupt.ZoneFullDisruption, false, "1 of 1 nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			nodes, hit := zoneOf("a", test.nodes, test.notReady, test.hit)
			effect := disrupt.Thresholds(append(nodes, other...), hit)
			if len(effect.Zones) != 2 || effect.AllDown {
				t.Fatalf("got %+v", effect)
			}
			a := effect.Zones[0]
			if a.Zone != "a" || a.Nodes != test.nodes || a.NotReady != test.notReady+test.hit || a.After != test.want || a.EvictionsStop != test.stop {
				t.Errorf("got %+v, want %+v", a, test)
			}
			warnings := effect.Warnings()
			if effect.Crossed() != (test.warning != "") || (len(warnings) > 0) != effect.Crossed() {
				t.Errorf("crossed: %t, warnings %q", effect.Crossed(), warnings)
			}
			if all := strings.Join(warnings, "\n"); !strings.Contains(all, test.warning) {
				t.Errorf("got %q, want %q", all, test.warning)
			}
		})
	}
}

func TestNoEvictionsWhenAllZonesAreDown(t *testing.T) {
	a, hitA := zoneOf("a", 4, 0, 4)
	b, hitB := zoneOf("b", 60, 1, 59)
	effect := disrupt.Thresholds(append(a, b...), append(hitA, hitB...))
	if !effect.AllDown || !effect.Crossed() || !effect.Zones[0].EvictionsStop || !effect.Zones[1].EvictionsStop {
		t.Errorf("got %+v", effect)
	}
	if warnings := effect.Warnings(); len(warnings) != 1 || !strings.Contains(warnings[0], "no node of the cluster would be Ready") {
		t.Errorf("got %q", warnings)
	}
	effect = disrupt.Thresholds(append(a, b...), append(hitA, hitB[1:]...))
	if effect.AllDown || effect.Zones[0].EvictionsStop {
		t.Errorf("with a node that is well: %+v", effect)
	}
	if effect := disrupt.Thresholds(nil, nil); effect.AllDown || effect.Crossed() {
		t.Errorf("without nodes: %+v", effect)
	}
}

func TestExcludedNodesDoNotCount(t *testing.T) {
	nodes, hit := zoneOf("", 8, 0, 4)
	if effect := disrupt.Thresholds(nodes, hit); effect.Crossed() {
		t.Errorf("4 of 8: %+v", effect)
	}
	for i := range nodes {
		nodes[i].Excluded = i >= 6
	}
	effect := disrupt.Thresholds(nodes, hit)
	if !effect.Crossed() || effect.Zones[0].Nodes != 6 {
		t.Errorf("4 of 6: %+v", effect)
	}
	if !slices.ContainsFunc(effect.Warnings(), func(w string) bool { return strings.Contains(w, "the zone without a name") }) {
		t.Errorf("got %q", effect.Warnings())
	}
}

func TestWhichFaultsCount(t *testing.T) {
	faults := oneOfEach()
	for kind, want := range map[disrupt.FaultType]bool{
		disrupt.NotReady: true, disrupt.FreezeHeartbeat: true, disrupt.Flap: true, disrupt.Kill: true, disrupt.Reboot: true,
		disrupt.Shutdown: true, disrupt.NeverJoin: true, disrupt.APIErrors: true,
		disrupt.SlowAPI:        false, // of the main client only
		disrupt.RestartKubelet: false, disrupt.Pressure: false, disrupt.Condition: false, disrupt.PodStartDelay: false, disrupt.PodStartFail: false,
	} {
		fault := faults[kind]
		if got := fault.MayTurnNotReady(); got != want {
			t.Errorf("%s: %t, want %t", kind, got, want)
		}
	}
	status := disrupt.Fault{Type: disrupt.FreezeHeartbeat, FreezeHeartbeat: &disrupt.FreezeHeartbeatParameters{Heartbeat: disrupt.HeartbeatStatus}}
	if status.MayTurnNotReady() {
		t.Error("the Lease alone keeps a Node Ready")
	}
	for heartbeat, want := range map[disrupt.FrozenHeartbeat][2]bool{"": {true, true}, "Both": {true, true}, "Lease": {true, false}, "Status": {false, true}} {
		fault := disrupt.Fault{Type: disrupt.FreezeHeartbeat, FreezeHeartbeat: &disrupt.FreezeHeartbeatParameters{Heartbeat: heartbeat}}
		if lease, status := fault.Frozen(); [2]bool{lease, status} != want {
			t.Errorf("%q: %t, %t", heartbeat, lease, status)
		}
	}
}
