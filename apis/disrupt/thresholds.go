package disrupt

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The node-lifecycle controller's rules, as kube-controller-manager has them by default.
const (
	// UnhealthyZoneThreshold is --unhealthy-zone-threshold: the part of a zone's nodes from which on it is disrupted.
	UnhealthyZoneThreshold = 0.55
	// MinNotReady is how many nodes of a zone have to be not ready for that, however small the zone is.
	MinNotReady = 3
	// LargeClusterSize is --large-cluster-size-threshold: a zone with so many nodes or fewer gets no evictions while it is
	// partially disrupted.
	LargeClusterSize = 50
)

// ZoneState is what the node-lifecycle controller makes of a zone.
type ZoneState string

const (
	// ZoneNormal: nodes that are not ready get their NoExecute taints at the usual rate, one in 10 s.
	ZoneNormal ZoneState = "Normal"
	// ZonePartialDisruption: too many nodes are not ready. Taints come at one in 100 s in a zone of more than
	// LargeClusterSize nodes, and not at all in a smaller one, so that no pod is evicted.
	ZonePartialDisruption ZoneState = "PartialDisruption"
	// ZoneFullDisruption: no node is ready. Taints come at the usual rate, unless no zone has a node that is ready.
	ZoneFullDisruption ZoneState = "FullDisruption"
)

// NodeState is a Node of a cluster as the node-lifecycle controller counts it.
type NodeState struct {
	Name string
	// Zone tells zones apart: the region and the zone of the Node, which its labels topology.kubernetes.io/region and zone
	// say. Nodes without them make up one zone.
	Zone string
	// Ready is that the condition Ready is True. Unknown is not ready.
	Ready bool
	// Excluded is that the Node has the label node.kubernetes.io/exclude-disruption and is not counted.
	Excluded bool
}

// ZoneEffect is what happens to a zone.
type ZoneEffect struct {
	Zone string
	// Nodes are all that count, NotReady those of them that would not be ready.
	Nodes, NotReady int
	// Before and After are the states without and with the nodes that are hit.
	Before, After ZoneState
	// EvictionsStop is that no pod would be evicted from nodes of the zone any more.
	EvictionsStop bool
}

// Crossed reports whether the zone would get another treatment than now.
func (e ZoneEffect) Crossed() bool { return e.Before != e.After }

// Effect is what the node-lifecycle controller would make of a disruption.
type Effect struct {
	// Zones are sorted by name.
	Zones []ZoneEffect
	// AllDown is that no zone would have a node that is ready: the controller takes its own view of the cluster for
	// wrong, removes the taints that it has set for unreachable nodes, and evicts nothing.
	AllDown bool
}

// Crossed reports whether any zone would get another treatment than now.
func (e Effect) Crossed() bool { return slices.ContainsFunc(e.Zones, ZoneEffect.Crossed) }

// Thresholds tells what the node-lifecycle controller would make of the nodes of a cluster if those that are hit were not
// ready.
//
// It follows k8s.io/kubernetes v1.37.1, pkg/controller/nodelifecycle/node_lifecycle_controller.go: ComputeZoneState for the
// state of a zone (FullDisruption if no node is ready; PartialDisruption if more than 2 are not ready, and at least the
// threshold of all, compared as float32), setLimiterInZone and ReducedQPSFunc for the rate of taints, handleDisruption for
// the cluster of which all zones are down, and isNodeExcludedFromDisruptionChecks for the nodes that do not count. The
// defaults are those of cmd/kube-controller-manager/app/options/nodelifecyclecontroller.go.
func Thresholds(nodes []NodeState, hit []string) Effect {
	isHit := map[string]bool{}
	for _, name := range hit {
		isHit[name] = true
	}
	type counts struct{ nodes, before, after int }
	zones := map[string]*counts{}
	for _, node := range nodes {
		if node.Excluded {
			continue
		}
		zone := zones[node.Zone]
		if zone == nil {
			zone = &counts{}
			zones[node.Zone] = zone
		}
		zone.nodes++
		if !node.Ready {
			zone.before++
		}
		if !node.Ready || isHit[node.Name] {
			zone.after++
		}
	}
	effect := Effect{AllDown: len(zones) > 0}
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		zone := zones[name]
		one := ZoneEffect{
			Zone: name, Nodes: zone.nodes, NotReady: zone.after,
			Before: zoneState(zone.nodes, zone.before), After: zoneState(zone.nodes, zone.after),
		}
		one.EvictionsStop = one.After == ZonePartialDisruption && zone.nodes <= LargeClusterSize
		effect.AllDown = effect.AllDown && one.After == ZoneFullDisruption
		effect.Zones = append(effect.Zones, one)
	}
	if effect.AllDown {
		for i := range effect.Zones {
			effect.Zones[i].EvictionsStop = true
		}
	}
	return effect
}

// zoneState is ComputeZoneState of the node-lifecycle controller.
func zoneState(nodes, notReady int) ZoneState {
	switch {
	case notReady == nodes && notReady > 0:
		return ZoneFullDisruption
	case notReady >= MinNotReady && float32(notReady)/float32(nodes) >= float32(UnhealthyZoneThreshold):
		return ZonePartialDisruption
	default:
		return ZoneNormal
	}
}

// Warnings are the sentences that a person should read before the disruption starts; none if nothing is crossed.
func (e Effect) Warnings() []string {
	if e.AllDown && e.Crossed() {
		return []string{"no node of the cluster would be Ready: the node-lifecycle controller would take this for a fault of its own and evict no pods"}
	}
	var warnings []string
	for _, zone := range e.Zones {
		if !zone.Crossed() {
			continue
		}
		var text strings.Builder
		fmt.Fprintf(&text, "%d of %d nodes of %s would not be Ready", zone.NotReady, zone.Nodes, zone.zoneTitle())
		switch {
		case zone.After == ZoneFullDisruption:
			text.WriteString(", which is all of them: pods are evicted at the usual rate, because another zone has a node that is Ready")
		case zone.EvictionsStop:
			fmt.Fprintf(&text, ", at least %.0f%%: in a zone of %d nodes or fewer the node-lifecycle controller would evict no pods", 100*UnhealthyZoneThreshold, LargeClusterSize)
		case zone.After == ZonePartialDisruption:
			fmt.Fprintf(&text, ", at least %.0f%%: the node-lifecycle controller would evict pods from one node in 100 s instead of 10 s", 100*UnhealthyZoneThreshold)
		default:
			text.WriteString(": the zone is not disrupted any more")
		}
		warnings = append(warnings, text.String())
	}
	return warnings
}

func (e ZoneEffect) zoneTitle() string {
	if e.Zone == "" {
		return "the zone without a name"
	}
	return fmt.Sprintf("zone %q", e.Zone)
}
