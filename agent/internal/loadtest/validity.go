package loadtest

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/measurement"
	measure "github.com/hollowfleet/hollowfleet/internal/loadtest"
)

const (
	// lateNodePercent, lateRequestPercent and saturatedPercent are how much of 100 makes a run invalid, if it is more.
	lateNodePercent, lateRequestPercent, saturatedPercent = 5, 5, 90
	// fewestLateNodes is the number below which late heartbeats and work queues do not matter: one of several may be ill for its own reasons.
	fewestLateNodes = 2
	// starvedPercent is how much of 100 hollow nodes may be starved: on a machine that is busy with many of them those that get most pods
	// are for a while, and what is measured is still the load on the cluster.
	starvedPercent = 25
	// busyPercent and doubtfulPercent are how busy processors, or in which part of the time saturated ones, leave a doubt.
	busyPercent, doubtfulPercent = 90, 50
	// shortestSaturation is how long processors have to be watched, in seconds.
	shortestSaturation = 30
)

// simulatorFacts are what the validity of a run rests on.
type simulatorFacts struct {
	Nodes, LateNodes int32
	// Unseen are hollow Nodes, while not one heartbeat was seen.
	Unseen                      int32
	LateQueues, StarvedKubelets int32
	Requests, LateRequests      int64
	// CPUSeconds is how long the processors were watched, and SaturatedPercent the part of it in which they were saturated.
	CPUSeconds       float64
	SaturatedPercent float64
	// BusyPercent is how busy they were on average.
	BusyPercent float64
	// Stalls is how many times the agent stood still, and LongestStall for how long at most.
	Stalls       int32
	LongestStall time.Duration
	// Interruptions is how many times its watches were interrupted. WatchLag is how late they were at most while requests were answered in
	// time: what is late as a whole is the API server.
	Interruptions int32
	WatchLag      time.Duration
}

// invalidReasons says why a run says nothing about its cluster; empty for a valid one. It is invalid if
//   - more than 5 % of the Nodes, and at least two or the only one, had late heartbeats: the hollow nodes could not keep up;
//   - no heartbeat of them was seen at all: nobody knows whether they did;
//   - the kubelets of as many were late with their work queues, for the same reason;
//   - those of more than 25 % waited for a processor all the time: their machines, or their cgroups, gave them too little;
//   - more than 5 % of the requests were made more than a second late: the agent could not keep up;
//   - the agent stood still for more than a second, or its watches were interrupted or late: what it has measured meanwhile is not true;
//   - the agent's processors were saturated in more than 90 % of at least 30 seconds, and a heartbeat, a work queue or a request was late.
//     Saturation alone says nothing: small machines are always busy while pods start.
func invalidReasons(f simulatorFacts) []string {
	reasons := nodeReasons(f)
	if f.Stalls > 0 {
		reasons = append(reasons, fmt.Sprintf("the agent stalled %s, for up to %s: it was stopped, or got no CPU. Give it more CPU, or use a larger machine", howOften(f.Stalls), measure.Round(f.LongestStall)))
	}
	if f.Interruptions > 0 {
		reasons = append(reasons, fmt.Sprintf("a watch of the agent was interrupted %s, so events in that time have wrong timestamps. Check the network between agent and API server", howOften(f.Interruptions)))
	}
	if f.WatchLag > measurement.LongestLag {
		reasons = append(reasons, fmt.Sprintf("the agent's watch of pods was up to %s behind while requests were answered in time, so the measurements of pods are wrong. Give the agent more CPU, or check the network", measure.Round(f.WatchLag)))
	}
	if f.LateRequests*100 > f.Requests*lateRequestPercent {
		reasons = append(reasons, fmt.Sprintf("%d of %d requests were made more than a second after their time: the agent did not keep up. Use a lower rate, or a larger machine", f.LateRequests, f.Requests))
	}
	if f.SaturatedPercent > saturatedPercent && f.CPUSeconds >= shortestSaturation && (f.LateNodes > 0 || f.LateQueues > 0 || f.LateRequests > 0) {
		reasons = append(reasons, fmt.Sprintf("the processors of the agent's machine were saturated for %.0f %% of the time, and %d heartbeats, %d work queues and %d requests were late", f.SaturatedPercent, f.LateNodes, f.LateQueues, f.LateRequests))
	}
	return reasons
}

// nodeReasons says why hollow nodes make a run invalid.
func nodeReasons(f simulatorFacts) []string {
	var reasons []string
	tooMany := func(late int32) bool {
		return (late >= fewestLateNodes || late == f.Nodes) && int64(late)*100 > int64(f.Nodes)*lateNodePercent
	}
	if tooMany(f.LateNodes) {
		reasons = append(reasons, fmt.Sprintf("%d of %d Nodes had late heartbeats: the hollow nodes did not keep up. Use fewer of them, or a larger machine", f.LateNodes, f.Nodes))
	}
	if f.Nodes == 0 && f.Unseen > 0 {
		reasons = append(reasons, fmt.Sprintf("no heartbeat of %d hollow Nodes was seen, so whether they kept up is unknown. Let the agent list Leases in %s", f.Unseen, corev1.NamespaceNodeLease))
	}
	if tooMany(f.LateQueues) {
		reasons = append(reasons, fmt.Sprintf("the kubelets of %d of %d Nodes were late with pods that were due: the hollow nodes did not keep up. Use fewer of them, or a larger machine", f.LateQueues, f.Nodes))
	}
	if int64(f.StarvedKubelets)*100 > int64(f.Nodes)*starvedPercent {
		reasons = append(reasons, fmt.Sprintf("the kubelets of %d of %d Nodes waited for a processor throughout: the hollow nodes did not keep up. Use fewer of them, give them more, or use a larger machine", f.StarvedKubelets, f.Nodes))
	}
	return reasons
}

// listDoubts say what makes it possible that the simulator was the bottleneck, although too little for an invalid run.
func listDoubts(f simulatorFacts) []string {
	var list []string
	if f.CPUSeconds > 0 && (f.BusyPercent >= busyPercent || f.SaturatedPercent >= doubtfulPercent) {
		list = append(list, fmt.Sprintf("the processors of the agent's machine were busy for %.0f %%, and saturated in %.0f %% of the time: hollow nodes, or a control plane beside them, may have waited for one", f.BusyPercent, f.SaturatedPercent))
	}
	if f.LateNodes > 0 {
		list = append(list, fmt.Sprintf("%d of %d Nodes had late heartbeats", f.LateNodes, f.Nodes))
	}
	if f.LateQueues > 0 {
		list = append(list, fmt.Sprintf("the kubelets of %d of %d Nodes were late with pods that were due", f.LateQueues, f.Nodes))
	}
	if f.StarvedKubelets > 0 {
		list = append(list, fmt.Sprintf("the kubelets of %d of %d Nodes waited for a processor all the time", f.StarvedKubelets, f.Nodes))
	}
	if f.LateRequests > 0 {
		list = append(list, fmt.Sprintf("%d of %d requests were made more than a second after their time by the agent", f.LateRequests, f.Requests))
	}
	return list
}

// howOften says how many times something was.
func howOften(count int32) string {
	if count == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", count)
}
