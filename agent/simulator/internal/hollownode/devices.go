package hollownode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/deviceplugin"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/disrupt"
	"github.com/hollowfleet/hollowfleet/agent/simulator/minor"
)

const (
	// pluginTimeout is how long the start of a kubelet waits for a device plugin.
	pluginTimeout = 5 * time.Second
	pluginPoll    = 5 * time.Millisecond
)

// devices are those of a node; nil for a node without any, which has no directory, no manager and no plugin either.
type devices struct {
	node  string
	kinds []contract.Devices
	// directory has the sockets. It stays open as long as the node runs: they are reached over it, because the path of a socket may have
	// no more than 107 bytes, and that of the directory is often longer.
	directory *os.File
	// manager is that of the kubelet that was built last.
	manager *minor.Devices

	mu    sync.Mutex
	state disrupt.State
	// plugins are those of the kubelet that runs, by resource.
	plugins map[string]*deviceplugin.Plugin
}

// openDevices returns the devices of a configuration.
func openDevices(c contract.Configuration, stateDir string) (*devices, error) {
	kinds := c.PluginDevices()
	if len(kinds) == 0 {
		return nil, nil
	}
	path := filepath.Join(stateDir, "device-plugins")
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the device plugins: %w", err)
	}
	directory, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of the device plugins: %w", err)
	}
	return &devices{node: c.NodeName, kinds: kinds, directory: directory, plugins: map[string]*deviceplugin.Plugin{}}, nil
}

// closeDirectory is called when no kubelet of the node runs.
func (d *devices) closeDirectory() {
	if d != nil {
		_ = d.directory.Close()
	}
}

// socketDirectory is a short path of the directory.
func (d *devices) socketDirectory() string { return shortPath(d.directory) }

// shortPath is a path of a directory that is open, as long as it is.
func shortPath(directory *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", directory.Fd()) }

// manageDevices returns a container manager with the devices, or manager itself if there are none.
func (d *devices) manageDevices(ctx context.Context, manager cm.ContainerManager, capacity corev1.ResourceList) (cm.ContainerManager, error) {
	if d == nil {
		return manager, nil
	}
	made, err := minor.WithDevices(klog.FromContext(ctx), manager, minor.DeviceOptions{
		Capacity: capacity, Socket: filepath.Join(d.socketDirectory(), deviceplugin.KubeletSocket), Containers: findContainers, Started: d.startPlugins,
	})
	d.manager = made
	return made, err
}

// startPlugins starts a plugin for each kind of devices, until ctx ends, and returns when the kubelet has the devices: those of pods that
// run must not be missing when it looks at the pods.
func (d *devices) startPlugins(ctx context.Context) {
	logger := klog.FromContext(ctx)
	for i, kind := range d.kinds {
		if err := d.startPlugin(ctx, kind, fmt.Sprintf("plugin-%d.sock", i)); err != nil {
			logger.Error(err, "Starting a device plugin failed: the Node has no such devices", "resource", kind.Resource)
		}
	}
}

func (d *devices) startPlugin(ctx context.Context, kind contract.Devices, socket string) error {
	plugin, err := deviceplugin.Start(deviceplugin.Options{
		Directory: d.socketDirectory(), Socket: socket, Resource: kind.Resource, Devices: deviceNames(kind),
	})
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() {
		plugin.Stop()
		d.removePlugin(plugin, kind)
	})
	d.addPlugin(plugin, kind)
	ctx, cancel := context.WithTimeout(ctx, pluginTimeout)
	defer cancel()
	if err := plugin.Register(ctx); err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, pluginPoll, true, func(ctx context.Context) (bool, error) {
		return d.manager.CountDevices(klog.FromContext(ctx), corev1.ResourceName(kind.Resource)) == int64(kind.Count), nil
	})
}

func (d *devices) addPlugin(plugin *deviceplugin.Plugin, kind contract.Devices) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plugins[kind.Resource] = plugin
	plugin.SetUnhealthy(d.state.UnhealthyDevices(d.node, kind.Resource, deviceNames(kind)))
}

// removePlugin forgets a plugin that has ended, unless the one of the next kubelet is there already.
func (d *devices) removePlugin(plugin *deviceplugin.Plugin, kind contract.Devices) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.plugins[kind.Resource] == plugin {
		delete(d.plugins, kind.Resource)
	}
}

// applyState lets the devices fail that a state says.
func (d *devices) applyState(state disrupt.State) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = state
	for _, kind := range d.kinds {
		if plugin := d.plugins[kind.Resource]; plugin != nil {
			plugin.SetUnhealthy(state.UnhealthyDevices(d.node, kind.Resource, deviceNames(kind)))
		}
	}
}

// maxNamePrefix leaves room for a number in a name of at most 63 characters.
const maxNamePrefix = 58

// deviceNames are the IDs of the devices of a kind: gpu-0, gpu-1 and so on, of a resource example.com/gpu as of a driver gpu.example.com.
func deviceNames(kind contract.Devices) []string {
	_, name, isResource := strings.Cut(kind.Resource, "/")
	if !isResource {
		name, _, _ = strings.Cut(kind.Driver, ".")
		name = name[:min(len(name), maxNamePrefix)]
	}
	names := make([]string, kind.Count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", name, i)
	}
	return names
}

// findContainers returns the containers that the runtime has, and which of them run: what the kubelet's device manager needs to tell its own
// start from that of the machine. A runtime that does not answer has none.
func findContainers(ctx context.Context, runtime internalapi.RuntimeService) (containermap.ContainerMap, sets.Set[string]) {
	found, running := containermap.NewContainerMap(), sets.New[string]()
	sandboxes, sandboxErr := runtime.ListPodSandbox(ctx, nil)
	containers, err := runtime.ListContainers(ctx, nil)
	if errors.Join(sandboxErr, err) != nil {
		return found, running
	}
	pods := map[string]string{}
	for _, sandbox := range sandboxes {
		pods[sandbox.GetId()] = sandbox.GetMetadata().GetUid()
	}
	for _, container := range containers {
		found.Add(pods[container.GetPodSandboxId()], container.GetMetadata().GetName(), container.GetId())
		if container.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			running.Insert(container.GetId())
		}
	}
	return found, running
}
