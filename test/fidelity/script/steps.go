package script

import "slices"

// Steps are the whole script, in the order in which it is run. Those that break the node come last.
func Steps() []*Step {
	all := slices.Concat(nodeSteps(), podSteps(), endSteps(), imageSteps(), pressureSteps(), kubeletSteps(), staticSteps(), deviceSteps(), notRunSteps(), breakSteps())
	slices.SortStableFunc(all, func(a, b *Step) int { return rank(a) - rank(b) })
	return all
}

func rank(s *Step) int {
	if s.Alone {
		return 1
	}
	return 0
}

// The rows of docs/fidelity.md, by their first column.
const (
	rowStatus      = "Lease (without managed fields) and status every 10 s, unchanged status every 5 min"
	rowAdmission   = "admission of pods, ServiceAccount tokens, client certificates, NodeRestriction, sidecars, image garbage collection"
	rowNotReady    = "NotReady and Unknown, taints, evictions, drains"
	rowJoin        = "time to join"
	rowProbes      = "probes"
	rowEnd         = "end of a container"
	rowExit        = "exit by itself"
	rowPulls       = "image pulls"
	rowConfigMaps  = "ConfigMaps and Secrets"
	rowWatches     = "watches"
	rowEvents      = "events"
	rowHooks       = "lifecycle hooks"
	rowEvictions   = "evictions for memory and disk"
	rowOOM         = "OOM kills"
	rowLimits      = "PID pressure, `emptyDir` limits, QoS cgroups"
	rowAllocatable = "`allocatable`"
	rowLogs        = "`kubectl logs`"
	rowTop         = "`kubectl top`, metrics-server, HPA"
	rowCertificate = "serving certificate"
	rowExec        = "`exec`, `attach`, `cp`, `port-forward`"
	rowMetrics     = "`/metrics`, `/metrics/cadvisor`"
	rowDevices     = "extended resources"
	rowStatic      = "static pods"
	rowShutdown    = "graceful node shutdown"
	rowCSINode     = "CSINode"
	rowRestart     = "restart of the kubelet"
	rowInPlace     = "update in place"
	rowDeleted     = "deleted Node"
	rowVersion     = "version"
	rowNetwork     = "network"
	rowPlanes      = "control planes of a local fleet"
)

// notRunSteps stand for what this script cannot do to both nodes.
func notRunSteps() []*Step {
	return []*Step{
		{Name: "join", Row: rowJoin, Verdict: Adjustable, NotRun: "a node of kind joins while kind makes the cluster; step deleted has the time that a registration takes"},
		{Name: "image-collection", Row: rowAdmission, Verdict: Same, NotRun: "it would need the disk of this machine to be full"},
		{Name: "watches", Row: rowWatches, Verdict: Adjustable, NotRun: "an API server does not say whose its watches are"},
		{Name: "shutdown", Row: rowShutdown, Verdict: Adjustable, NotRun: "this script shuts no node of kind down"},
		{Name: "in-place", Row: rowInPlace, Verdict: Absent, NotRun: "kind has no way to give a node another kubelet"},
		{Name: "control-planes", Row: rowPlanes, Verdict: Absent, NotRun: "it is about control planes, not nodes"},
	}
}
