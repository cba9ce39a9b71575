// Package podhost runs the hollow nodes of a cluster in which no kubelet runs, as processes of this machine. It is a node of the cluster
// with the identity of a real one: the Node authorizer and the NodeRestriction admission apply to it.
//
// It runs the pods that the cluster's agent makes for its Machines, and nothing else: package hollowpod has their shape. Any other pod
// stays pending, and an event with reason Unsupported names the fields.
//
// What is like on a kubelet: restarts with back-off, probes, the files of a pod, statuses, logs, and deletion with a grace period. What
// differs, because there are no containers:
//
//   - An image is a directory with the program hollow-node.
//   - The files of a pod do not appear at their mount paths: the program is told where they are.
//   - A pod has a loopback address of its own.
//   - A podhost that runs as root runs hollow nodes as user 65532. Any other podhost runs them as its own user.
//   - Requests count for the scheduler.
//   - When the podhost ends, however it ends, the kernel ends its processes. The next podhost of the same Node starts the pods again. The
//     state of a node stays.
package podhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
)

const (
	// clientQPS and clientBurst leave room for many pods that start at once, each with seven requests.
	clientQPS   = 400
	clientBurst = 800
	// settleTime is how long no status of a pod has changed when the podhost gives back what the start of nodes needed.
	settleTime = 30 * time.Second
	// nodeTimeout bounds the wait for an API server that does not answer at the end.
	nodeTimeout = 2 * time.Second
)

var podType = reflect.TypeFor[*corev1.Pod]()

// Run runs a podhost until the context ends. All processes of its pods have ended when it returns.
func Run(ctx context.Context, options Options) error {
	if err := options.complete(); err != nil {
		return err
	}
	h, err := newHost(options)
	if err != nil {
		return err
	}
	defer h.release()
	return h.run(ctx)
}

// Clean removes the files that a podhost left in its data directory. It returns the paths of what it left because no
// podhost made it. No podhost may be using the directory.
func Clean(dataDir string) (left []string, err error) { return poddir.Clean(dataDir) }

// Options describe a podhost.
type Options struct {
	// Name is the name of the Node.
	Name string
	// Kubeconfig is a file with the identity system:node:<Name>.
	Kubeconfig string
	// DataDir is a directory of the podhost's own. It is made if it is not there.
	DataDir string
	// HollowNodesOf is the namespace whose hollow-node pods run, as an agent makes them, and no others.
	HollowNodesOf string
	// Images maps image names to directories with the program hollow-node.
	Images map[string]string
	// NodesPerPack is how many hollow nodes share a process. With 0 or 1 each has its own.
	NodesPerPack int
	// Capacity is what the Node has to offer: how much may be requested, of
	// which the podhost enforces nothing. What it leaves out is what the
	// machine holds of hollow nodes by their memory, and 10000 pods.
	Capacity corev1.ResourceList
	// LastExit is how the podhost ended before, empty if this is the first. An event of the Node tells of one that did not end in order.
	LastExit string `json:"-"`
	// Ready is called once, when the Node is registered and pods can come.
	Ready func() `json:"-"`
	// FirstBackoff is how long a node waits for its second restart, and LastBackoff the longest wait, which is twice as long each time until
	// then. The defaults are the kubelet's, 10 s and 5 minutes.
	FirstBackoff, LastBackoff time.Duration
	// ShutdownGrace bounds the time that processes have to end when the
	// podhost ends. The default is 5 s.
	ShutdownGrace time.Duration
	// RefreshPeriod is the time between two looks at the Secret of a pod that is not ready, and 15 times as long at that of a ready one. The
	// default is 20 s.
	RefreshPeriod time.Duration
	// LogLimit bounds a node's log file in bytes. One older file of the
	// same size is kept. The default is 8 MiB.
	LogLimit int64
}

func (o *Options) complete() error {
	if o.Name == "" || o.Kubeconfig == "" || o.DataDir == "" || o.HollowNodesOf == "" {
		return errors.New("a podhost needs a name, a kubeconfig, a data directory and the namespace of its pods")
	}
	if o.Ready == nil {
		o.Ready = func() {}
	}
	o.Ready = sync.OnceFunc(o.Ready)
	o.FirstBackoff = cmp.Or(o.FirstBackoff, 10*time.Second)
	o.LastBackoff = cmp.Or(o.LastBackoff, 5*time.Minute)
	o.ShutdownGrace = cmp.Or(o.ShutdownGrace, 5*time.Second)
	o.RefreshPeriod = cmp.Or(o.RefreshPeriod, 20*time.Second)
	o.LogLimit = cmp.Or(o.LogLimit, 8<<20)
	given := o.Capacity
	var err error
	if o.Capacity, err = machineCapacity(o.NodesPerPack); err == nil {
		maps.Copy(o.Capacity, given)
	}
	return err
}

// A hollow-node requests 20 thousandths of a CPU and 64 MiB, which fits all hosts and versions. At rest it takes 1 thousandth, and 3 MiB in
// a pack or 12 MiB in a process of its own, its part of the API server included. Its memory limits how many fit; too many for the CPUs are
// slow, not lost, so that those limit nothing before.
const (
	cpuOvercommit    = 1000
	packedOvercommit = 20
	loneOvercommit   = 4
	machinePods      = 10000
)

// machineCapacity is what may be requested of this machine.
func machineCapacity(nodesPerPack int) (corev1.ResourceList, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return nil, fmt.Errorf("reading the size of the machine's memory: %w", err)
	}
	memory, overcommit := int64(info.Totalram)*int64(info.Unit), int64(loneOvercommit)
	if nodesPerPack > 1 {
		overcommit = packedOvercommit
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(runtime.NumCPU())*cpuOvercommit, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory*overcommit, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(machinePods, resource.DecimalSI),
	}, nil
}
