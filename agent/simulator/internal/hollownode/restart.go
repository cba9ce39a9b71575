package hollownode

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
)

// hardware is the machine of a node, with its container runtime: what stays when only the kubelet starts again.
type hardware struct {
	runtime *fakecri.Runtime
	images  *fakecri.Images
	pods    *podIndex
	bootID  string
	started time.Time
	// devices are those of device plugins, claims those of DRA drivers, and storage has the CSI drivers; each nil without any.
	devices *devices
	claims  *claims
	storage *storage
	// booted is set once the startup delay is over.
	booted bool
}

func newHardware(c contract.Configuration, options Options) (*hardware, error) {
	devices, err := openDevices(c, options.StateDir)
	if err != nil {
		return nil, err
	}
	claims, err := openClaims(c, options.StateDir)
	if err != nil {
		devices.closeDirectory()
		return nil, err
	}
	storage, err := openStorage(c, options.StateDir)
	if err != nil {
		devices.closeDirectory()
		claims.closeDirectory()
		return nil, err
	}
	pods := &podIndex{}
	return &hardware{
		runtime: newRuntime(c, options, pods), images: newImages(c, options.StateDir), pods: pods,
		bootID: uuid.NewString(), started: time.Now(), devices: devices, claims: claims, storage: storage,
	}, nil
}

// setNode is called with the UID of each Node of the kubelet.
func (h *hardware) setNode(uid types.UID) {
	h.claims.setNode(uid)
	h.storage.setNode(uid)
}

// bootMachine waits for the startup delay, once, and returns false if ctx ends before.
func (h *hardware) bootMachine(ctx context.Context, delay time.Duration) bool {
	if !h.booted {
		h.booted = pauseFor(ctx, delay)
	}
	return h.booted && ctx.Err() == nil
}

// runKubelets runs the node's kubelet, and after each RestartKubelet another one, with the containers and images of the one before.
func (n *node) runKubelets(ctx context.Context) error {
	defer n.devices.closeDirectory()
	defer n.claims.closeDirectory()
	defer n.storage.closeStorage()
	for {
		err := n.runKubelet(ctx)
		if !errors.Is(err, ErrKilled) || !n.restarts.Load() {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		if n, err = newNodeOn(n.hardware, n.configuration, n.options); err != nil {
			return err
		}
	}
}

// runKubelet runs one kubelet to its end.
func (n *node) runKubelet(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer n.life.endNode() // Before ctx, so that nothing more is written by what ends with it.
	return n.life.runNode(func() error { return n.run(ctx) })
}
