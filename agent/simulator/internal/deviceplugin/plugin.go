// Package deviceplugin is a simulated device plugin. It offers devices that do not exist to a kubelet over the kubelet's socket, as the
// plugin of a vendor does.
package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// KubeletSocket is the name of the kubelet's socket in the directory.
const KubeletSocket = "kubelet.sock"

// Options are what a plugin needs. All of them are required.
type Options struct {
	// Directory has the kubelet's socket, and gets the plugin's own. Its path has to be short: that of a socket has at most 107 bytes.
	Directory string
	// Socket is the name of the plugin's socket in it.
	Socket string
	// Resource is what the devices are called, such as example.com/gpu.
	Resource string
	// Devices are the IDs of the devices.
	Devices []string
}

// Plugin offers devices until it is stopped.
type Plugin struct {
	pluginapi.UnimplementedDevicePluginServer
	options Options
	server  *grpc.Server
	// served is closed when the server has ended.
	served chan struct{}

	mu        sync.Mutex
	unhealthy []string
	// changed is closed when unhealthy changes.
	changed chan struct{}
}

// Start serves a plugin. The kubelet learns of it by Register.
func Start(options Options) (*Plugin, error) {
	p := &Plugin{options: options, server: grpc.NewServer(), served: make(chan struct{}), changed: make(chan struct{})}
	path := filepath.Join(options.Directory, options.Socket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing the socket of an earlier device plugin: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening as the device plugin of %s: %w", options.Resource, err)
	}
	// The path may lead through a file descriptor, whose number can be that of another node's directory when the plugin ends.
	listener.SetUnlinkOnClose(false)
	pluginapi.RegisterDevicePluginServer(p.server, p)
	go func() {
		defer close(p.served)
		_ = p.server.Serve(listener) // It ends with Stop.
	}()
	return p, nil
}

// Stop ends the plugin, whose devices and connections are gone then.
func (p *Plugin) Stop() {
	p.server.Stop()
	<-p.served
}

// Register tells the kubelet of the plugin. The kubelet connects to it before Register returns, and learns of the devices soon after.
func (p *Plugin) Register(ctx context.Context) error {
	connection, err := grpc.NewClient("unix:"+filepath.Join(p.options.Directory, KubeletSocket), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connecting to the kubelet as the device plugin of %s: %w", p.options.Resource, err)
	}
	defer connection.Close()
	_, err = pluginapi.NewRegistrationClient(connection).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: p.options.Socket, ResourceName: p.options.Resource, Options: &pluginapi.DevicePluginOptions{},
	})
	if err != nil {
		return fmt.Errorf("registering the device plugin of %s: %w", p.options.Resource, err)
	}
	return nil
}

// SetUnhealthy tells the kubelet which devices are unhealthy. All others are healthy.
func (p *Plugin) SetUnhealthy(devices []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Equal(p.unhealthy, devices) {
		return
	}
	p.unhealthy = slices.Clone(devices)
	close(p.changed)
	p.changed = make(chan struct{})
}

// listDevices returns the devices with their health, and a channel that is closed when it changes.
func (p *Plugin) listDevices() (*pluginapi.ListAndWatchResponse, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	response := &pluginapi.ListAndWatchResponse{}
	for _, id := range p.options.Devices {
		device := &pluginapi.Device{ID: id, Health: pluginapi.Healthy}
		if slices.Contains(p.unhealthy, id) {
			device.Health = pluginapi.Unhealthy
		}
		response.Devices = append(response.Devices, device)
	}
	return response, p.changed
}

// ListAndWatch sends the devices, and again whenever their health changes.
func (p *Plugin) ListAndWatch(_ *pluginapi.Empty, stream pluginapi.DevicePlugin_ListAndWatchServer) error {
	for {
		response, changed := p.listDevices()
		if err := stream.Send(response); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// GetDevicePluginOptions has none: the kubelet allocates as it likes, and starts containers without asking.
func (p *Plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

// Allocate lets containers have devices. They see nothing of them, because nothing runs.
func (p *Plugin) Allocate(_ context.Context, request *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	response := &pluginapi.AllocateResponse{}
	for range request.GetContainerRequests() {
		response.ContainerResponses = append(response.ContainerResponses, &pluginapi.ContainerAllocateResponse{})
	}
	return response, nil
}
