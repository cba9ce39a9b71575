package loadtest

import "fmt"

const (
	// lateNodePercent, lateRequestPercent and saturatedPercent are how much of 100 makes a run invalid, if it is more.
	lateNodePercent, lateRequestPercent, saturatedPercent = 5, 5, 90
	// fewestLateNodes is the number below which late heartbeats do not matter: one node may be ill for its own reasons. A kubelet that says
	// that it is late has no other reason.
	fewestLateNodes = 2
	// shortestSaturation is how long processors have to be watched, in seconds.
	shortestSaturation = 30
)

// simulatorFacts are what the validity of a run rests on.
type simulatorFacts struct {
	Nodes, LateNodes, LateKubelets int32
	Requests, LateRequests         int64
	// CPUSeconds is how long the processors were watched, and SaturatedPercent the part of it in which they were saturated.
	CPUSeconds       float64
	SaturatedPercent float64
}

// invalidity says why a run says nothing about its cluster; empty for a valid one. It is invalid if
//   - more than 5 % of the Nodes, and at least two, had late heartbeats: the hollow nodes could not keep up;
//   - the kubelets of more than 5 % were late with their work queues or always waited for a processor, for the same reason;
//   - more than 5 % of the requests were made more than a second late: the agent could not keep up;
//   - the agent's processors were saturated in more than 90 % of at least 30 seconds, and a heartbeat, a kubelet or a request was late.
//     Saturation alone says nothing: small machines are always busy while pods start.
func invalidity(f simulatorFacts) []string {
	var reasons []string
	tooMany := func(late int32) bool { return int64(late)*100 > int64(f.Nodes)*lateNodePercent }
	if f.LateNodes >= fewestLateNodes && tooMany(f.LateNodes) {
		reasons = append(reasons, fmt.Sprintf("%d of %d Nodes had late heartbeats: the hollow nodes did not keep up. Use fewer of them, or a larger machine", f.LateNodes, f.Nodes))
	}
	if tooMany(f.LateKubelets) {
		reasons = append(reasons, fmt.Sprintf("the kubelets of %d of %d Nodes were late with pods that were due, or waited for a processor all the time: the hollow nodes did not keep up. Use fewer of them, or a larger machine", f.LateKubelets, f.Nodes))
	}
	if f.LateRequests*100 > f.Requests*lateRequestPercent {
		reasons = append(reasons, fmt.Sprintf("%d of %d requests were made more than a second after their time: the agent did not keep up. Ask for fewer a second, or use a larger machine", f.LateRequests, f.Requests))
	}
	if f.SaturatedPercent > saturatedPercent && f.CPUSeconds >= shortestSaturation && (f.LateNodes > 0 || f.LateKubelets > 0 || f.LateRequests > 0) {
		reasons = append(reasons, fmt.Sprintf("the processors of the agent's machine were saturated for %.0f %% of the time, and %d heartbeats, %d kubelets and %d requests were late", f.SaturatedPercent, f.LateNodes, f.LateKubelets, f.LateRequests))
	}
	return reasons
}
