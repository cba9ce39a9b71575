// Package csidriver is a simulated CSI driver, as it is on a node: the Identity and Node services of one of a vendor, over a socket. Its
// volumes are empty directories, in which nothing is mounted.
package csidriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// Options are what a driver needs. All of them but Version are required.
type Options struct {
	// Directory gets the driver's socket, of this name. Its path has to be short: that of a socket has at most 107 bytes.
	Directory, Socket string
	// Driver is what the driver is called, and how many volumes of it the node can have.
	Driver contract.CSIDriver
	// Node is the name of the Node, and its ID for the driver.
	Node string
	// Volumes is the directory below which volumes are published. Outside of it the driver makes and removes nothing.
	Volumes string
	// Version is that of the driver.
	Version string
}

// Driver serves until it is stopped.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	options Options
	server  *grpc.Server
	// served is closed when the server has ended.
	served chan struct{}

	mu sync.Mutex
	// topology is nil until it is known.
	topology map[string]string
}

// Start serves a driver.
func Start(options Options) (*Driver, error) {
	d := &Driver{options: options, server: grpc.NewServer(), served: make(chan struct{})}
	path := d.Endpoint()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing the socket of an earlier CSI driver: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening as the CSI driver %s: %w", options.Driver.Name, err)
	}
	// The path may lead through a file descriptor, whose number can be that of another node's directory when the driver ends.
	listener.SetUnlinkOnClose(false)
	csi.RegisterIdentityServer(d.server, d)
	csi.RegisterNodeServer(d.server, d)
	go func() {
		defer close(d.served)
		_ = d.server.Serve(listener) // It ends with Stop.
	}()
	return d, nil
}

// Stop ends the driver.
func (d *Driver) Stop() {
	d.server.Stop()
	<-d.served
}

// Endpoint is the path of the socket.
func (d *Driver) Endpoint() string { return filepath.Join(d.options.Directory, d.options.Socket) }

// SetTopology says where the node is, by the topology keys of the driver.
func (d *Driver) SetTopology(segments map[string]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.topology = maps.Clone(segments)
}

// AskNodeInfo asks the driver over its socket what the kubelet asks one that registers.
func (d *Driver) AskNodeInfo(ctx context.Context) (*csi.NodeGetInfoResponse, error) {
	connection, err := grpc.NewClient("unix:"+d.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connecting to the CSI driver %s: %w", d.options.Driver.Name, err)
	}
	defer connection.Close()
	info, err := csi.NewNodeClient(connection).NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking the CSI driver %s of its node: %w", d.options.Driver.Name, err)
	}
	return info, nil
}

// GetPluginInfo says what the driver is called.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.options.Driver.Name, VendorVersion: d.options.Version}, nil
}

// GetPluginCapabilities says that volumes have a place, if the driver has topology keys.
func (d *Driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	response := &csi.GetPluginCapabilitiesResponse{}
	if len(d.options.Driver.TopologyKeys) > 0 {
		response.Capabilities = []*csi.PluginCapability{{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS},
		}}}
	}
	return response, nil
}

// Probe says that the driver is there.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// NodeGetCapabilities has none: nothing is staged, grown or measured.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodeGetInfo says which node this is, where it is, and how many volumes it can have.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	response := &csi.NodeGetInfoResponse{NodeId: d.options.Node, MaxVolumesPerNode: int64(d.options.Driver.MaxVolumesPerNode)}
	if len(d.options.Driver.TopologyKeys) == 0 {
		return response, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.topology == nil {
		return nil, status.Error(codes.Unavailable, "the labels of the Node are not known yet")
	}
	response.AccessibleTopology = &csi.Topology{Segments: maps.Clone(d.topology)}
	return response, nil
}

// NodePublishVolume makes the directory of a volume for a pod. With the attribute contract.MountFails it fails with the text of it.
func (d *Driver) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := d.checkTarget(request.GetVolumeId(), request.GetTargetPath()); err != nil {
		return nil, err
	}
	if message := request.GetVolumeContext()[contract.MountFails]; message != "" {
		return nil, status.Error(codes.Internal, message)
	}
	if request.GetVolumeCapability().GetBlock() != nil {
		return nil, status.Error(codes.InvalidArgument, "block volumes are not simulated: use volumeMode Filesystem")
	}
	if err := os.MkdirAll(request.GetTargetPath(), 0o750); err != nil {
		return nil, status.Errorf(codes.Internal, "making the directory of the volume: %v", err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume removes that directory, which is empty.
func (d *Driver) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := d.checkTarget(request.GetVolumeId(), request.GetTargetPath()); err != nil {
		return nil, err
	}
	if err := os.Remove(request.GetTargetPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.Internal, "removing the directory of the volume: %v", err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// checkTarget refuses what is outside of the node's own directory.
func (d *Driver) checkTarget(volume, target string) error {
	if volume == "" {
		return status.Error(codes.InvalidArgument, "volume_id: required")
	}
	inside, err := filepath.Rel(d.options.Volumes, target)
	if err != nil || inside == "." || inside == ".." || strings.HasPrefix(inside, "../") {
		return status.Errorf(codes.InvalidArgument, "target_path: want a path below %s, got %q", d.options.Volumes, target)
	}
	return nil
}
