package hollownode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/disrupt"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/dradriver"
	"github.com/hollowfleet/hollowfleet/agent/simulator/minor"
)

// claims are the DRA drivers of a node; nil for a node without any, which has no directory, no manager and no driver either.
type claims struct {
	node  string
	kinds []contract.Devices
	// directory has the sockets, which are reached over it as those of device plugins are, and the checkpoint.
	directory *os.File
	// manager and client are those of the kubelet that was built last.
	manager *minor.Claims
	client  clientset.Interface

	mu    sync.Mutex
	state disrupt.State
	// uid is that of the Node, empty until it is known.
	uid types.UID
	// drivers are those of the kubelet that runs until running ends, by name.
	drivers map[string]*dradriver.Driver
	running context.Context //nolint:containedctx // A Node that is registered again gets slices of the drivers that run.
}

// openClaims returns the drivers of a configuration.
func openClaims(c contract.Configuration, stateDir string) (*claims, error) {
	kinds := c.DriverDevices()
	if len(kinds) == 0 {
		return nil, nil
	}
	path := filepath.Join(stateDir, "dra")
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the DRA drivers: %w", err)
	}
	directory, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of the DRA drivers: %w", err)
	}
	return &claims{node: c.NodeName, kinds: kinds, directory: directory}, nil
}

// closeDirectory is called when no kubelet of the node runs.
func (c *claims) closeDirectory() {
	if c != nil {
		_ = c.directory.Close()
	}
}

// manageClaims returns a container manager that prepares claims, or manager itself if there are no drivers.
func (c *claims) manageClaims(ctx context.Context, manager cm.ContainerManager, client clientset.Interface) (cm.ContainerManager, error) {
	if c == nil {
		return manager, nil
	}
	made, err := minor.WithClaims(klog.FromContext(ctx), manager, minor.ClaimOptions{
		Client: client, Directory: c.directory.Name(), Started: c.startDrivers,
	})
	c.manager, c.client = made, client
	return made, err
}

// startDrivers starts and registers the drivers, until ctx ends.
func (c *claims) startDrivers(ctx context.Context) {
	drivers := map[string]*dradriver.Driver{}
	for i, kind := range c.kinds {
		driver, err := c.startDriver(ctx, kind, fmt.Sprintf("driver-%d.sock", i))
		if err != nil {
			klog.FromContext(ctx).Error(err, "Starting a DRA driver failed: the Node has no such devices", "driver", kind.Driver)
			continue
		}
		drivers[kind.Driver] = driver
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drivers, c.running = drivers, ctx
	c.setFailed()
	c.publishDevices()
}

func (c *claims) startDriver(ctx context.Context, kind contract.Devices, socket string) (*dradriver.Driver, error) {
	driver, services, err := dradriver.Start(ctx, dradriver.Options{
		Client: c.client, Node: c.node, Driver: kind.Driver, Directory: shortPath(c.directory), Socket: socket, Devices: publishedDevices(kind),
	})
	if err != nil {
		return nil, err
	}
	if err := c.manager.RegisterDriver(ctx, kind.Driver, driver.Endpoint(), services); err != nil {
		return nil, fmt.Errorf("registering the DRA driver %s: %w", kind.Driver, err)
	}
	return driver, nil
}

// setNode is called when the Node is found, and when another one has taken its place: its slices end with a Node.
func (c *claims) setNode(uid types.UID) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uid != uid {
		c.uid = uid
		c.publishDevices()
	}
}

func (c *claims) publishDevices() {
	if c.uid == "" || c.running == nil || c.running.Err() != nil {
		return
	}
	for _, driver := range c.drivers {
		driver.PublishDevices(c.running, c.uid)
	}
}

// applyState lets the devices fail that a state says.
func (c *claims) applyState(state disrupt.State) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = state
	c.setFailed()
}

func (c *claims) setFailed() {
	for _, kind := range c.kinds {
		if driver := c.drivers[kind.Driver]; driver != nil {
			driver.SetFailed(c.state.FailedDevices(c.node, kind.Driver, deviceNames(kind)))
		}
	}
}

// publishedDevices are the devices of a kind as ResourceSlices have them.
func publishedDevices(kind contract.Devices) []resourcev1.Device {
	names := deviceNames(kind)
	devices := make([]resourcev1.Device, len(names))
	for i, name := range names {
		devices[i] = resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}}
		for key, value := range kind.Attributes {
			devices[i].Attributes[resourcev1.QualifiedName(key)] = value
		}
		for key, value := range kind.Capacity {
			if devices[i].Capacity == nil {
				devices[i].Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{}
			}
			devices[i].Capacity[resourcev1.QualifiedName(key)] = resourcev1.DeviceCapacity{Value: value}
		}
	}
	return devices
}
