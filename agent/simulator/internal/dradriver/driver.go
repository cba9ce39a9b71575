// Package dradriver is a simulated DRA driver. It publishes devices that do not exist in ResourceSlices of its Node, and prepares
// ResourceClaims for the Node's kubelet, as the driver of a vendor does.
package dradriver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/minor"
)

const (
	// devicesPerSlice is how many devices a ResourceSlice can have if some have taints.
	devicesPerSlice = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	// syncDelay is how long slices may be missing that were deleted: a kubelet that starts deletes those of its Node.
	syncDelay = time.Second
)

// Options are what a driver needs. All of them are required.
type Options struct {
	// Client is that of the node.
	Client clientset.Interface
	// Node is the name of the Node, and of the pool of devices.
	Node string
	// Driver is what the driver is called, such as gpu.example.com.
	Driver string
	// Directory gets the driver's socket, of this name. The path of a socket has at most 107 bytes.
	Directory, Socket string
	// Devices are all devices.
	Devices []resourcev1.Device
}

// Driver serves a kubelet until the context that it was started with ends.
type Driver struct {
	options Options

	mu sync.Mutex
	// failed are the effects of the taints of failed devices, by name.
	failed map[string]resourcev1.DeviceTaintEffect
	// changed is closed when failed changes.
	changed chan struct{}
	// stop ends the publication for an earlier Node.
	stop context.CancelFunc
}

// Start serves a driver until ctx ends. The kubelet learns of it with the services that are returned.
func Start(ctx context.Context, options Options) (driver *Driver, services []string, err error) {
	d := &Driver{options: options, changed: make(chan struct{}), stop: func() {}}
	services, err = minor.ServeDriver(ctx, d,
		kubeletplugin.DriverName(options.Driver), kubeletplugin.NodeName(options.Node), kubeletplugin.KubeClient(options.Client),
		kubeletplugin.PluginDataDirectoryPath(options.Directory), kubeletplugin.PluginSocket(options.Socket),
		kubeletplugin.PluginListener(listenOn),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("serving the DRA driver %s: %w", options.Driver, err)
	}
	return d, services, nil
}

// Endpoint is the path of the socket.
func (d *Driver) Endpoint() string { return filepath.Join(d.options.Directory, d.options.Socket) }

// listenOn makes a socket that stays when it is closed: its path may be that of another directory then.
func listenOn(_ context.Context, path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing the socket of an earlier DRA driver: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	return listener, nil
}

// PublishDevices keeps the ResourceSlices of the Node with this UID until ctx ends, and ends those of an earlier Node.
func (d *Driver) PublishDevices(ctx context.Context, node types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop()
	ctx, d.stop = context.WithCancel(ctx)
	go d.keepSlices(ctx, node)
}

func (d *Driver) keepSlices(ctx context.Context, node types.UID) {
	resources, changed := d.listResources()
	delay := syncDelay
	controller, err := resourceslice.StartController(ctx, resourceslice.Options{
		DriverName: d.options.Driver, KubeClient: d.options.Client, Resources: resources, SyncDelay: &delay, ErrorHandler: d.HandleError,
		Owner: &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: d.options.Node, UID: node},
	})
	if err != nil {
		d.HandleError(ctx, err, "starting to publish devices")
		return
	}
	defer controller.Stop()
	for {
		select {
		case <-changed:
			resources, changed = d.listResources()
			controller.Update(resources)
		case <-ctx.Done():
			return
		}
	}
}

// listResources returns what is published, and a channel that is closed when it changes.
func (d *Driver) listResources() (*resourceslice.DriverResources, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var pool resourceslice.Pool
	for chunk := range slices.Chunk(d.options.Devices, devicesPerSlice) {
		devices := slices.Clone(chunk)
		for i := range devices {
			if effect := d.failed[devices[i].Name]; effect != "" {
				devices[i].Taints = []resourcev1.DeviceTaint{{Key: contract.DeviceTaint, Effect: effect}}
			}
		}
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: devices})
	}
	return &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{d.options.Node: pool}}, d.changed
}

// SetFailed says which devices have failed, and the effects of their taints. All others are healthy and have no taint.
func (d *Driver) SetFailed(failed map[string]resourcev1.DeviceTaintEffect) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if maps.Equal(d.failed, failed) {
		return
	}
	d.failed = maps.Clone(failed)
	close(d.changed)
	d.changed = make(chan struct{})
}

// ListHealth returns the health of the devices, and a channel that is closed when it changes.
func (d *Driver) ListHealth() (pool string, healthy map[string]bool, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	healthy = make(map[string]bool, len(d.options.Devices))
	for i := range d.options.Devices {
		name := d.options.Devices[i].Name
		healthy[name] = d.failed[name] == ""
	}
	return d.options.Node, healthy, d.changed
}

// PrepareResourceClaims says which devices claims have. Containers see nothing of them, because nothing runs.
func (d *Driver) PrepareResourceClaims(_ context.Context, claims []*resourcev1.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, claim := range claims {
		results[claim.UID] = d.prepareClaim(claim)
	}
	return results, nil
}

func (d *Driver) prepareClaim(claim *resourcev1.ResourceClaim) (prepared kubeletplugin.PrepareResult) {
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != d.options.Driver {
			continue
		}
		known := slices.ContainsFunc(d.options.Devices, func(device resourcev1.Device) bool { return device.Name == result.Device })
		if result.Pool != d.options.Node || !known {
			prepared.Err = fmt.Errorf("node %s has no device %s of pool %s", d.options.Node, result.Device, result.Pool)
			return prepared
		}
		prepared.Devices = append(prepared.Devices, kubeletplugin.Device{
			Requests: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device, ShareID: result.ShareID,
		})
	}
	return prepared
}

// UnprepareResourceClaims has nothing to undo.
func (d *Driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := make(map[types.UID]error, len(claims))
	for _, claim := range claims {
		results[claim.UID] = nil
	}
	return results, nil
}

// HandleError reports an error of the background, which is tried again.
func (d *Driver) HandleError(ctx context.Context, err error, message string) {
	if ctx.Err() != nil {
		return
	}
	klog.FromContext(ctx).Error(err, "A DRA driver failed and tries again", "driver", d.options.Driver, "node", d.options.Node, "while", message)
}
