package podhost

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"golang.org/x/sys/unix"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/backoff"
)

const (
	defaultPods           = 10000
	defaultShutdownGrace  = 5 * time.Second
	defaultRefreshPeriod  = 20 * time.Second
	defaultLogLimit       = 8 << 20
	defaultStatusInterval = 5 * time.Minute
)

// Options describe a podhost.
type Options struct {
	// Name is the name of the Node.
	Name string
	// Kubeconfig is a file with the identity system:node:<Name>.
	Kubeconfig string
	// DataDir is a directory of the podhost's own. It is made if it is not there.
	DataDir string
	// HollowNodesOf is the namespace whose hollow-node pods run, as an agent makes them, and no others. Empty for any pod of any
	// namespace, which is code that anyone who may create pods runs on this machine.
	HollowNodesOf string
	// Images maps image names to directories that play their root file systems.
	Images map[string]string
	// NodesPerPack is how many hollow nodes share a process. With 0 or 1 each has its own.
	NodesPerPack int
	// Capacity is what the Node has to offer: how much may be requested, of
	// which the podhost enforces nothing. What it leaves out is what the
	// machine holds of hollow nodes by their memory, and 10000 pods.
	Capacity corev1.ResourceList
	// Ready is called once, when the Node is registered and pods can come.
	Ready func()
	// Backoff is how long containers that fail wait for their restart. The
	// default is the kubelet's.
	Backoff backoff.Policy
	// ShutdownGrace bounds the time that processes have to end when the
	// podhost ends. The default is 5 s.
	ShutdownGrace time.Duration
	// RefreshPeriod is the time between two looks at the sources of volumes.
	// The default is 20 s.
	RefreshPeriod time.Duration
	// LogLimit bounds a container's log file in bytes. One older file of the
	// same size is kept. The default is 8 MiB.
	LogLimit int64
}

func (o *Options) complete() error {
	if o.Name == "" || o.Kubeconfig == "" || o.DataDir == "" {
		return errors.New("a podhost needs a name, a kubeconfig and a data directory")
	}
	if ready := o.Ready; ready != nil {
		o.Ready = sync.OnceFunc(ready)
	} else {
		o.Ready = func() {}
	}
	o.Backoff = o.Backoff.WithDefaults()
	if o.ShutdownGrace == 0 {
		o.ShutdownGrace = defaultShutdownGrace
	}
	if o.RefreshPeriod == 0 {
		o.RefreshPeriod = defaultRefreshPeriod
	}
	if o.LogLimit == 0 {
		o.LogLimit = defaultLogLimit
	}
	capacity, err := machineCapacity(o.NodesPerPack)
	if err != nil {
		return err
	}
	for name, quantity := range o.Capacity {
		capacity[name] = quantity
	}
	o.Capacity = capacity
	return nil
}

// A hollow-node requests 20 thousandths of a CPU and 64 MiB, which fits all
// hosts and versions. At rest it takes 1 thousandth, and 3 MiB in a pack or
// 12 MiB in a process of its own, its part of the API server included. Its
// memory limits how many fit; too many for the CPUs are slow, not lost, so
// that those limit nothing before.
const (
	cpuOvercommit    = 1000
	packedOvercommit = 20
	loneOvercommit   = 4
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
		corev1.ResourcePods:   *resource.NewQuantity(defaultPods, resource.DecimalSI),
	}, nil
}
