// Package preflight knows what a local fleet needs of a machine, and whether a machine has it.
package preflight

import "math"

// Fleet is the size of a fleet.
type Fleet struct {
	// Clusters is the number of workload clusters, Machines that of the Machines in each.
	Clusters, Machines int
	// NodesPerPack is how many hollow nodes of a cluster share a process.
	NodesPerPack int
	// ClustersPerGroup is how many control planes share a process if Shared. Otherwise each component has a process of its own.
	ClustersPerGroup int
	Shared           bool
	// SlowHeartbeats is that Nodes report every 30 seconds.
	SlowHeartbeats bool
	// Host is that the hub's own cluster has an agent, which hosts simulated clusters. Those are not counted here.
	Host bool
}

// Resources are what a fleet needs at rest, or what a machine has left.
type Resources struct {
	// Memory and Disk are in bytes.
	Memory int64 `json:"memoryBytes"`
	Disk   int64 `json:"diskBytes"`
	// MilliCPU is in thousandths of a processor.
	MilliCPU int64 `json:"milliCPU"`
	// Inotify counts inotify instances, and Tasks processes with all their threads.
	Inotify int64 `json:"inotifyInstances"`
	Tasks   int64 `json:"tasks"`
	// OpenFiles counts the files of the one process that opens most.
	OpenFiles int64 `json:"openFiles"`
}

const mib = 1 << 20

// cost is what one more of something costs at rest: private memory and disk in MiB, and CPU seconds per minute.
type cost struct {
	memory, disk, cpu float64
	inotify, tasks    int64
}

// The costs are rounded up: they bound what a fleet needs, they do not predict it. They are from fleets at rest on 2 cores, memory from
// Anonymous of smaps_rollup and CPU from /proc/PID/stat of each process over two minutes: 3 clusters with 20 Machines each in both
// isolations ("make bench-scale"), 5 in one group without Machines, and 50 with 20 each, shared: 10.2 GiB and 88 s/min, of which 7.6 GiB
// and 56 s/min are shared processes, 1.4 GiB and 22 s/min packs. To measure a part again, run "make bench-scale" and change the one line here.
var (
	// costOfHub is the hub's control plane, the hub and the keeper.
	costOfHub = cost{memory: 400, disk: 50, cpu: 2.1, inotify: 9, tasks: 70}
	// costOfPodhostAndAgent is what each cluster has beside its control plane, and its part of the hub.
	costOfPodhostAndAgent = cost{memory: 20.5 + 12.5 + 3, cpu: 0.09 + 0.12 + 0.15, inotify: 3, tasks: 20}
	// costOfHost is the agent of the host of simulated clusters.
	costOfHost = cost{memory: 20, cpu: 0.2, inotify: 1, tasks: 12}
	// costOfPlane is a control plane of processes of its own; costOfShared one that shares a process, and costOfGroup that process itself.
	costOfPlane  = cost{memory: 270, disk: 40, cpu: 1.4, inotify: 8, tasks: 55}
	costOfShared = cost{memory: 115, disk: 40, cpu: 0.5, inotify: 4, tasks: 5}
	costOfGroup  = cost{memory: 50, cpu: 0.1, tasks: 40}
	// costOfNode is a hollow node in a pack and its part of the API server, costOfSlowNode one with slow heartbeats.
	costOfNode     = cost{memory: 2.5, disk: 0.5, cpu: 0.026 + 0.028}
	costOfSlowNode = cost{memory: 2.5, disk: 0.5, cpu: 0.022 + 0.013}
	// costOfPack is a process of hollow nodes, costOfLone what a hollow node costs more in one of its own.
	costOfPack = cost{memory: 8, tasks: 14}
	costOfLone = cost{memory: 10, cpu: 0.035, tasks: 9}
)

const (
	// leastOpenFiles is what an API server has open without nodes, most of them connections to etcd.
	leastOpenFiles = 256
	// sharedOpenFiles is what each control plane of a group has open.
	sharedOpenFiles = 190
	// openFilesPerNode are connections to the API server, and in a pack also listeners and logs.
	openFilesPerNode = 4
)

// Needs is what the fleet needs at rest.
func (f Fleet) Needs() Resources {
	var total cost
	total.addCosts(costOfHub, 1)
	total.addCosts(costOfPodhostAndAgent, f.Clusters)
	if f.Host {
		total.addCosts(costOfHost, 1)
	}
	nodes, together := f.Clusters*f.Machines, 1
	openFiles := 0
	if f.Shared {
		together = min(f.Clusters, f.ClustersPerGroup)
		total.addCosts(costOfShared, f.Clusters)
		total.addCosts(costOfGroup, divideUp(f.Clusters, f.ClustersPerGroup))
		openFiles = together * sharedOpenFiles
	} else {
		total.addCosts(costOfPlane, f.Clusters)
	}
	if f.SlowHeartbeats {
		total.addCosts(costOfSlowNode, nodes)
	} else {
		total.addCosts(costOfNode, nodes)
	}
	if f.NodesPerPack > 1 {
		total.addCosts(costOfPack, f.Clusters*divideUp(f.Machines, f.NodesPerPack))
	} else {
		total.addCosts(costOfLone, nodes)
	}
	return Resources{
		Memory: int64(math.Ceil(total.memory)) * mib, Disk: int64(math.Ceil(total.disk)) * mib, MilliCPU: int64(math.Ceil(total.cpu * 1000 / 60)),
		Inotify: total.inotify, Tasks: total.tasks,
		OpenFiles: int64(max(leastOpenFiles, openFiles+openFilesPerNode*max(together*f.Machines, f.Clusters))),
	}
}

// mostCPUPercent is the share of the processors that a fleet may need at rest with heartbeats every 10 seconds: its start needs some, too.
const mostCPUPercent = 75

// SavesWithSlowHeartbeats reports whether the fleet needs so much CPU that slow heartbeats are the better choice for it.
func (f Fleet) SavesWithSlowHeartbeats(has Resources) bool {
	slow := f
	slow.SlowHeartbeats = true
	needs := f.Needs().MilliCPU
	return needs*100 > has.MilliCPU*mostCPUPercent && slow.Needs().MilliCPU < needs
}

// way is how to start the same fleet for less.
type way struct {
	flags string
	needs Resources
}

// cheaperWays are those there are, the one that changes least first.
func (f Fleet) cheaperWays() []way {
	var ways []way
	shared, slow, both := f, f, f
	shared.Shared, slow.SlowHeartbeats, both.Shared, both.SlowHeartbeats = true, true, true, true
	mayShare := !f.Shared && f.ClustersPerGroup > 0
	if mayShare {
		ways = append(ways, way{"--isolation shared", shared.Needs()})
	}
	if !f.SlowHeartbeats {
		ways = append(ways, way{slowFlag, slow.Needs()})
	}
	if mayShare && !f.SlowHeartbeats {
		ways = append(ways, way{"--isolation shared " + slowFlag, both.Needs()})
	}
	return ways
}

// slowFlag lets a Node that is lost be NotReady later than elsewhere, so that it is the default of large fleets only.
const slowFlag = "--heartbeats slow"

func divideUp(n, size int) int { return (n + size - 1) / size }

// addCosts adds what is there count times.
func (c *cost) addCosts(one cost, count int) {
	c.memory += one.memory * float64(count)
	c.disk += one.disk * float64(count)
	c.cpu += one.cpu * float64(count)
	c.inotify += one.inotify * int64(count)
	c.tasks += one.tasks * int64(count)
}
