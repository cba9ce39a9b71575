// Package preflight knows what a local fleet needs of a machine, and whether a machine has it.
package preflight

// Fleet is the size of a fleet.
type Fleet struct {
	// Clusters is the number of workload clusters, Machines that of the Machines in each.
	Clusters, Machines int
	// NodesPerPack is how many hollow nodes of a cluster share a process.
	NodesPerPack int
	// ClustersPerGroup is how many control planes share a process. 0 gives each component a process of its own.
	ClustersPerGroup int
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

// The costs were measured at rest with 60 Machines in three clusters ("What it costs" has the figures), and are rounded up: they bound
// what a fleet needs, they do not predict it.
var (
	// costOfHub is the hub's control plane, the hub and the keeper.
	costOfHub = Resources{Memory: 400 * mib, Disk: 50 * mib, MilliCPU: 35, Inotify: 9, Tasks: 70}
	// costOfCluster is a control plane of processes of its own, its podhost and its agent.
	costOfCluster = Resources{Memory: 350 * mib, Disk: 40 * mib, MilliCPU: 30, Inotify: 11, Tasks: 75}
	// costOfShared is the same for a control plane that shares a process, costOfGroup that process itself.
	costOfShared = Resources{Memory: 250 * mib, Disk: 40 * mib, MilliCPU: 20, Inotify: 7, Tasks: 25}
	costOfGroup  = Resources{Memory: 50 * mib, MilliCPU: 2, Tasks: 40}
	// costOfNode has the part of the API server in it.
	costOfNode = Resources{Memory: 3 * mib, Disk: mib / 2, MilliCPU: 1}
	// costOfPack is a process of hollow nodes, costOfLone what a hollow node costs more in one of its own.
	costOfPack = Resources{Memory: 8 * mib, Tasks: 14}
	costOfLone = Resources{Memory: 9 * mib, Tasks: 9, MilliCPU: 1}
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
	nodes, packs, lone := f.Clusters*f.Machines, 0, 0
	if f.NodesPerPack > 1 {
		packs = f.Clusters * divideUp(f.Machines, f.NodesPerPack)
	} else {
		lone = nodes
	}
	needs, together := costOfHub.plus(costOfCluster, f.Clusters), 1
	if f.ClustersPerGroup > 0 {
		together = min(f.Clusters, f.ClustersPerGroup)
		needs = costOfHub.plus(costOfShared, f.Clusters).plus(costOfGroup, divideUp(f.Clusters, f.ClustersPerGroup))
		needs.OpenFiles = int64(together * sharedOpenFiles)
	}
	needs = needs.plus(costOfNode, nodes).plus(costOfPack, packs).plus(costOfLone, lone)
	needs.OpenFiles = max(leastOpenFiles, needs.OpenFiles+int64(openFilesPerNode*max(together*f.Machines, f.Clusters)))
	return needs
}

func divideUp(n, size int) int { return (n + size - 1) / size }

// plus adds a cost that is there count times. OpenFiles are of one process, and not added.
func (r Resources) plus(cost Resources, count int) Resources {
	n := int64(count)
	r.Memory += n * cost.Memory
	r.Disk += n * cost.Disk
	r.MilliCPU += n * cost.MilliCPU
	r.Inotify += n * cost.Inotify
	r.Tasks += n * cost.Tasks
	return r
}
