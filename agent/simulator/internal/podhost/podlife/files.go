package podlife

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/hollowpod"
	"github.com/hollowfleet/hollowfleet/apis/disrupt"
)

// The directories in that of a pod.
const volumesDirectory, logsDirectory = "volumes", "logs"

// Files are the files of the pods: configuration, state, plan of disruptions and logs of each.
type Files struct {
	// Base is the directory that holds one directory per pod.
	Base string
	// NodesBase is where the nodes find that directory.
	NodesBase string
	// Secret returns a Secret of a pod.
	Secret func(namespace, name string) (*corev1.Secret, error)
	// User is the user and group of the nodes if it is not this process's own, else 0.
	User int
}

// Args are the arguments of a pod's node.
func (f *Files) Args(uid types.UID, ip net.IP) []string {
	volumes := filepath.Join(f.NodesBase, string(uid), volumesDirectory)
	return hollowpod.Args(filepath.Join(volumes, hollowpod.ConfigVolume), filepath.Join(volumes, hollowpod.StateVolume), ip.String(), filepath.Join(volumes, hollowpod.PlanVolume))
}

// Log is the log file of one run of a pod's node.
func (f *Files) Log(uid types.UID, attempt int32) string {
	return filepath.Join(f.Base, string(uid), logsDirectory, strconv.Itoa(int(attempt))+".log")
}

func (f *Files) volume(uid types.UID, name string) string {
	return filepath.Join(f.Base, string(uid), volumesDirectory, name)
}

// Prepare makes the files of a pod, and brings those that follow an object up to date. The state lives as long as the pod, also if the
// podhost is started again in between.
func (f *Files) Prepare(pod *corev1.Pod) error {
	secret, err := f.Secret(pod.Namespace, pod.Name)
	if err != nil {
		return fmt.Errorf("reading Secret %s: %w", pod.Name, err)
	}
	for _, directory := range []string{"", volumesDirectory, filepath.Join(volumesDirectory, hollowpod.ConfigVolume), filepath.Join(volumesDirectory, hollowpod.PlanVolume)} {
		if err := f.makeDirectory(filepath.Join(f.Base, string(pod.UID), directory), false); err != nil {
			return err
		}
	}
	if err := f.makeDirectory(f.volume(pod.UID, hollowpod.StateVolume), true); err != nil {
		return err
	}
	plan := map[string][]byte{disrupt.FileName: []byte(hollowpod.Plan(pod))}
	return errors.Join(f.write(pod, hollowpod.ConfigVolume, secret.Data), f.write(pod, hollowpod.PlanVolume, plan))
}

// makeDirectory makes a directory unless it is there already. One in which a node writes belongs to its user. All others stay with the user
// of this process, so that a node cannot put a link where the podhost is about to write, and the node's group can pass.
func (f *Files) makeDirectory(path string, writable bool) error {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	switch {
	case err != nil || f.User == 0:
	case writable:
		err = os.Lchown(path, f.User, f.User)
	default:
		// The group comes first: its change clears bits of the mode.
		err = errors.Join(os.Lchown(path, -1, f.User), os.Chmod(path, 0o750))
	}
	if err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	return nil
}

// write writes the files of a volume at once if they differ from what is there.
func (f *Files) write(pod *corev1.Pod, volume string, content map[string][]byte) error {
	payload := make(map[string]volumeutil.FileProjection, len(content))
	for name, data := range content {
		payload[name] = volumeutil.FileProjection{Data: data, Mode: 0o400}
	}
	directory := f.volume(pod.UID, volume)
	writer, err := volumeutil.NewAtomicWriter(directory, fmt.Sprintf("pod %s/%s volume %s", pod.Namespace, pod.Name, volume))
	if err == nil {
		err = writer.Write(payload, func(subPath string) error { return f.protect(filepath.Join(directory, subPath)) })
	}
	if err != nil {
		return fmt.Errorf("writing volume %s: %w", volume, err)
	}
	return nil
}

// protect lets the node read the files in a directory, and not write, as a kubelet mounts them. The user of this process can write to the
// directory: without that no process but root could remove what a podhost has left that was killed.
func (f *Files) protect(directory string) error {
	return filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || f.User == 0 {
			return err
		}
		mode := fs.FileMode(0o440)
		if entry.IsDir() {
			mode = 0o750
		}
		return errors.Join(os.Lchown(path, -1, f.User), os.Chmod(path, mode))
	})
}
