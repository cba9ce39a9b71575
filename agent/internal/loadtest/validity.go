package loadtest

import "fmt"

const (
	// lateNodePercent, lateRequestPercent and saturatedPercent are how much of 100 makes a run invalid, if it is more.
	lateNodePercent, lateRequestPercent, saturatedPercent = 5, 5, 90
	// fewestLateNodes is the number below which late heartbeats and work queues do not matter: one node may be ill for its own reasons.
	fewestLateNodes = 2
	// starvedPercent is how much of 100 hollow nodes may be starved: on a machine that is busy with many of them those that get most pods
	// are for a while, and what is measured is still the load on the cluster.
	starvedPercent = 25
	// shortestSaturation is how long processors have to be watched, in seconds.
	shortestSaturation = 30
)

// simulatorFacts are what the validity of a run rests on.
type simulatorFacts struct {
	Nodes, LateNodes            int32
	LateQueues, StarvedKubelets int32
	Requests, LateRequests      int64
	// CPUSeconds is how long the processors were watched, and SaturatedPercent the part of it in which they were saturated.
	CPUSeconds       float64
	SaturatedPercent float64
}

// invalidity says why a run says nothing about its cluster; empty for a valid one. It is invalid if
//   - more than 5 % of the Nodes, and at least two, had late heartbeats: the hollow nodes could not keep up;
//   - the kubelets of as many were late with their work queues, for the same reason;
//   - those of more than 25 % waited for a processor all the time: their machines, or their cgroups, gave them too little;
//   - more than 5 % of the requests were made more than a second late: the agent could not keep up;
//   - the agent's processors were saturated in more than 90 % of at least 30 seconds, and a heartbeat, a work queue or a request was late.
//     Saturation alone says nothing: small machines are always busy while pods start.
func invalidity(f simulatorFacts) []string {
	var reasons []string
	tooMany := func(late int32) bool {
		return late >= fewestLateNodes && int64(late)*100 > int64(f.Nodes)*lateNodePercent
	}
	if tooMany(f.LateNodes) {
		reasons = append(reasons, fmt.Sprintf("%d of %d Nodes had late heartbeats: the hollow nodes did not keep up. Use fewer of them, or a larger machine", f.LateNodes, f.Nodes))
	}
	if tooMany(f.LateQueues) {
		reasons = append(reasons, fmt.Sprintf("the kubelets of %d of %d Nodes were late with pods that were due: the hollow nodes did not keep up. Use fewer of them, or a larger machine", f.LateQueues, f.Nodes))
	}
	if int64(f.StarvedKubelets)*100 > int64(f.Nodes)*starvedPercent {
		reasons = append(reasons, fmt.Sprintf("the kubelets of %d of %d Nodes waited for a processor all the time: the hollow nodes did not keep up. Use fewer of them, give them more, or use a larger machine", f.StarvedKubelets, f.Nodes))
	}
	if f.LateRequests*100 > f.Requests*lateRequestPercent {
		reasons = append(reasons, fmt.Sprintf("%d of %d requests were made more than a second after their time: the agent did not keep up. Ask for fewer a second, or use a larger machine", f.LateRequests, f.Requests))
	}
	if f.SaturatedPercent > saturatedPercent && f.CPUSeconds >= shortestSaturation && (f.LateNodes > 0 || f.LateQueues > 0 || f.LateRequests > 0) {
		reasons = append(reasons, fmt.Sprintf("the processors of the agent's machine were saturated for %.0f %% of the time, and %d heartbeats, %d work queues and %d requests were late", f.SaturatedPercent, f.LateNodes, f.LateQueues, f.LateRequests))
	}
	return reasons
}
