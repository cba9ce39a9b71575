package minor

import (
	"context"
	"sync"
	"time"
	_ "unsafe" // For go:linkname.

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/nodeshutdown"
	"k8s.io/kubernetes/pkg/kubelet/nodeshutdown/systemd"
)

// Logind is what a kubelet asks systemd's login manager.
type Logind interface {
	inhibiter
	Close() error
}

// inhibiter has the methods of the type of the same variable of the kubelet.
type inhibiter interface {
	CurrentInhibitDelay() (time.Duration, error)
	InhibitShutdown() (systemd.InhibitLock, error)
	ReleaseInhibitLock(lock systemd.InhibitLock) error
	ReloadLogindConf() error
	MonitorShutdown(logger klog.Logger) (<-chan bool, error)
	OverrideInhibitDelay(delay time.Duration) error
}

// systemDbus is a private variable of the kubelet's, by which its shutdown manager connects to the system bus when it starts. A hollow kubelet
// has a bus of its own there, because the one of the machine would shut the node down with the machine that simulates it.
//
//go:linkname systemDbus k8s.io/kubernetes/pkg/kubelet/nodeshutdown.systemDbus
var systemDbus func() (inhibiter, error)

// connecting is held while one of the kubelets of this process connects.
var connecting sync.Mutex

// ConnectLogind returns the shutdown manager of a kubelet that has not started, connected to a login manager.
func ConnectLogind(manager nodeshutdown.Manager, to Logind) (nodeshutdown.Manager, error) {
	return connected{manager, to}, nil
}

type connected struct {
	nodeshutdown.Manager
	logind Logind
}

// Start starts the manager.
func (c connected) Start(ctx context.Context) error {
	connecting.Lock()
	defer connecting.Unlock()
	systemDbus = func() (inhibiter, error) { return c.logind, nil }
	return c.Manager.Start(ctx)
}
