package csidriver

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"
)

const zone = "topology.kubernetes.io/zone"

// startDriver serves a driver, and returns a client and the directory of its volumes.
func startDriver(t *testing.T) (*Driver, csi.NodeClient, string) {
	t.Helper()
	volumes := t.TempDir()
	directory, err := os.MkdirTemp("", "csi") //nolint:usetesting // The path of a socket has at most 107 bytes.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	d, err := Start(Options{
		Directory: directory, Socket: "csi.sock", Node: "n1", Volumes: volumes, Version: "v1",
		Driver: contract.CSIDriver{Name: "csi.example.com", MaxVolumesPerNode: 3, TopologyKeys: []string{zone}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	connection, err := grpc.NewClient("unix:"+d.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return d, csi.NewNodeClient(connection), volumes
}

// Claim: A CSI driver says how many volumes its node can have and where the node is, once it knows. Broken: a place that is not known is none; no limit.
func TestADriverDescribesItsNode(t *testing.T) {
	d, _, _ := startDriver(t)
	if _, err := d.AskNodeInfo(t.Context()); status.Code(errors.Unwrap(err)) != codes.Unavailable {
		t.Errorf("want it unavailable without a topology, got %v", err)
	}
	d.SetTopology(map[string]string{zone: "a"})
	info, err := d.AskNodeInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.GetNodeId() != "n1" || info.GetMaxVolumesPerNode() != 3 || !maps.Equal(info.GetAccessibleTopology().GetSegments(), map[string]string{zone: "a"}) {
		t.Errorf("the driver says %v", info)
	}
}

// Claim: A CSI driver makes and removes directories of its own node only, and none that has something in it. Broken: a path outside is made; a directory is removed with what is in it.
func TestADriverTouchesItsOwnDirectoryOnly(t *testing.T) {
	_, client, volumes := startDriver(t)
	publish := func(target string, attributes map[string]string) error {
		_, err := client.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{
			VolumeId: "v", TargetPath: target, VolumeContext: attributes, VolumeCapability: &csi.VolumeCapability{},
		})
		return err
	}
	unpublish := func(target string) error {
		_, err := client.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: "v", TargetPath: target})
		return err
	}
	outside := filepath.Join(t.TempDir(), "v")
	for _, target := range []string{outside, volumes, filepath.Join(volumes, "..", "v"), "", "v"} {
		if err := publish(target, nil); status.Code(err) != codes.InvalidArgument {
			t.Errorf("publishing at %q: %v", target, err)
		}
		if err := unpublish(target); status.Code(err) != codes.InvalidArgument {
			t.Errorf("unpublishing at %q: %v", target, err)
		}
	}
	inside := filepath.Join(volumes, "pod", "v")
	if err := publish(inside, map[string]string{contract.MountFails: "no such disk"}); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "no such disk") {
		t.Errorf("publishing a volume that fails: %v", err)
	}
	for range 2 {
		if err := publish(inside, nil); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(inside, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unpublish(inside); status.Code(err) != codes.Internal {
		t.Errorf("unpublishing a directory with a file: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := unpublish(inside); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(inside); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of the volume is still there: %v", err)
	}
}
