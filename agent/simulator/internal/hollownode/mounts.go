package hollownode

import (
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/downwardapi"
	"k8s.io/kubernetes/pkg/volume/emptydir"
	"k8s.io/kubernetes/pkg/volume/hostpath"
	"k8s.io/kubernetes/pkg/volume/nfs"
	"k8s.io/kubernetes/pkg/volume/projected"
	"k8s.io/kubernetes/pkg/volume/secret"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/mount-utils"
)

// mounter mounts nothing and remembers nothing: every directory stays an ordinary one. So volumes work
// without privileges, and what they hold is files below the state directory.
type mounter struct{}

var _ mount.Interface = mounter{}

func (mounter) Mount(string, string, string, []string) error                     { return nil }
func (mounter) MountSensitive(_, _, _ string, _, _ []string) error               { return nil }
func (mounter) MountSensitiveWithoutSystemd(_, _, _ string, _, _ []string) error { return nil }
func (mounter) MountSensitiveWithoutSystemdWithMountFlags(_, _, _ string, _, _, _ []string) error {
	return nil
}
func (mounter) Unmount(string) error                   { return nil }
func (mounter) List() ([]mount.MountPoint, error)      { return nil, nil }
func (mounter) GetMountRefs(string) ([]string, error)  { return nil, nil }
func (mounter) CanSafelySkipMountPointCheck() bool     { return true }
func (mounter) IsMountPoint(path string) (bool, error) { return false, checkExists(path) }
func (mounter) IsLikelyNotMountPoint(path string) (bool, error) {
	return true, checkExists(path)
}

func checkExists(path string) error {
	_, err := os.Stat(path)
	return err
}

// host stands in for the host's file system where only paths count. It says that every path is a
// directory, and answers for the mode of one because volumes mounted at a sub-path need it.
type host struct{ *hostutil.FakeHostUtil }

func newHost() host { return host{hostutil.NewFakeHostUtil(nil)} }

func (host) GetMode(string) (os.FileMode, error)         { return os.ModeDir | 0o755, nil }
func (host) GetOwner(string) (uid, gid int64, err error) { return 0, 0, nil }

// volumePlugins are the kinds of volume that a hollow pod can have: those that need nothing but files. Of
// a hostPath or NFS volume nothing but the path is used. A node with CSI drivers has volumes of these too, see storage.
func volumePlugins() []volume.VolumePlugin {
	var plugins []volume.VolumePlugin
	for _, probed := range [][]volume.VolumePlugin{
		emptydir.ProbeVolumePlugins(),
		secret.ProbeVolumePlugins(),
		configmap.ProbeVolumePlugins(),
		downwardapi.ProbeVolumePlugins(),
		projected.ProbeVolumePlugins(),
	} {
		for _, plugin := range probed {
			plugins = append(plugins, ownerless{plugin})
		}
	}
	plugins = append(plugins, hostpath.FakeProbeVolumePlugins(volume.VolumeConfig{})...)
	return append(plugins, nfs.ProbeVolumePlugins(volume.VolumeConfig{})...)
}

// ownerless keeps a volume's files in the hands of the hollow-node. Giving them to the pod's user takes
// privileges, and without them the pod would not start.
type ownerless struct{ volume.VolumePlugin }

func (p ownerless) NewMounter(spec *volume.Spec, pod *corev1.Pod) (volume.Mounter, error) {
	inner, err := p.VolumePlugin.NewMounter(spec, pod)
	if err != nil {
		return nil, err
	}
	return ownerlessMounter{inner}, nil
}

type ownerlessMounter struct{ volume.Mounter }

func (m ownerlessMounter) SetUp(arguments volume.MounterArgs) error {
	arguments.FsUser, arguments.FsGroup = nil, nil
	return m.Mounter.SetUp(arguments)
}

func (m ownerlessMounter) SetUpAt(directory string, arguments volume.MounterArgs) error {
	arguments.FsUser, arguments.FsGroup = nil, nil
	return m.Mounter.SetUpAt(directory, arguments)
}
