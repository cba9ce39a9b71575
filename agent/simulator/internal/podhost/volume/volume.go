// Package volume makes the volumes of pods as directories of this machine.
//
// Secret, ConfigMap, downward API and projected volumes are written atomically
// and refreshed like the kubelet does it, and read-only. An emptyDir is a
// directory that lives as long as its pod, also if the podhost is started again
// in between.
package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
)

const (
	volumesDirectory = "volumes"
	scratchDirectory = "tmp"
)

// Objects reads the Secrets and ConfigMaps that pods refer to.
type Objects interface {
	GetSecret(namespace, name string) (*corev1.Secret, error)
	GetConfigMap(namespace, name string) (*corev1.ConfigMap, error)
}

// Tokens requests service account tokens and renews them in time.
type Tokens interface {
	GetServiceAccountToken(namespace, name string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
}

// Manager makes and removes volumes.
type Manager struct {
	// Base is the directory that holds one directory per pod.
	Base    string
	Objects Objects
	Tokens  Tokens
	// Allocatable stands in for limits in the downward API.
	Allocatable corev1.ResourceList
}

// Prepare makes all volumes of the pod and fills them. It can be repeated, and
// must be if an object that it needs is not there yet.
func (m *Manager) Prepare(pod *corev1.Pod, owner Owner) error {
	if err := owner.makePassage(m.podDirectory(pod.UID)); err != nil {
		return err
	}
	if err := owner.makeWritable(m.Scratch(pod.UID)); err != nil {
		return err
	}
	if err := owner.makePassage(filepath.Join(m.podDirectory(pod.UID), volumesDirectory)); err != nil {
		return err
	}
	for i := range pod.Spec.Volumes {
		if err := m.prepareVolume(pod, &pod.Spec.Volumes[i], owner); err != nil {
			return fmt.Errorf("setting up volume %s: %w", pod.Spec.Volumes[i].Name, err)
		}
	}
	return m.makeSubPaths(pod, owner)
}

// Refresh brings the content of the volumes up to date. A volume that cannot
// be refreshed keeps its content.
func (m *Manager) Refresh(pod *corev1.Pod, owner Owner) error {
	var failed error
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.EmptyDir != nil {
			continue
		}
		if err := m.write(pod, volume, owner); err != nil {
			failed = errors.Join(failed, fmt.Errorf("refreshing volume %s: %w", volume.Name, err))
		}
	}
	return failed
}

// Remove removes everything of a pod.
func (m *Manager) Remove(uid types.UID) error {
	return poddir.Remove(m.Base, uid)
}

// Scratch is the pod's directory for temporary files.
func (m *Manager) Scratch(uid types.UID) string {
	return filepath.Join(m.podDirectory(uid), scratchDirectory)
}

// Directories returns where the mount paths of a container are found.
func (m *Manager) Directories(pod *corev1.Pod, container *corev1.Container) map[string]string {
	directories := make(map[string]string, len(container.VolumeMounts))
	for _, mount := range container.VolumeMounts {
		directories[mount.MountPath] = filepath.Join(m.volumeDirectory(pod.UID, mount.Name), mount.SubPath)
	}
	return directories
}

func (m *Manager) podDirectory(uid types.UID) string {
	return filepath.Join(m.Base, string(uid))
}

func (m *Manager) volumeDirectory(uid types.UID, volume string) string {
	return filepath.Join(m.podDirectory(uid), volumesDirectory, volume)
}

func (m *Manager) prepareVolume(pod *corev1.Pod, volume *corev1.Volume, owner Owner) error {
	directory := m.volumeDirectory(pod.UID, volume.Name)
	if volume.EmptyDir != nil {
		return owner.makeWritable(directory)
	}
	if err := owner.makePassage(directory); err != nil {
		return err
	}
	return m.write(pod, volume, owner)
}

// write writes the wanted content if it differs from what is there.
func (m *Manager) write(pod *corev1.Pod, volume *corev1.Volume, owner Owner) error {
	payload, err := m.payload(pod, volume)
	if err != nil {
		return err
	}
	directory := m.volumeDirectory(pod.UID, volume.Name)
	writer, err := volumeutil.NewAtomicWriter(directory, fmt.Sprintf("pod %s/%s volume %s", pod.Namespace, pod.Name, volume.Name))
	if err != nil {
		return fmt.Errorf("opening the volume: %w", err)
	}
	return writer.Write(payload, func(subPath string) error {
		return owner.protect(filepath.Join(directory, subPath))
	})
}

// makeSubPaths makes the directories in emptyDir volumes that are mounted on
// their own. In the other volumes a sub path is one of the files.
func (m *Manager) makeSubPaths(pod *corev1.Pod, owner Owner) error {
	empty := make(map[string]bool)
	for _, volume := range pod.Spec.Volumes {
		empty[volume.Name] = volume.EmptyDir != nil
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, container := range containers {
			for _, mount := range container.VolumeMounts {
				if mount.SubPath == "" || !empty[mount.Name] {
					continue
				}
				root, err := os.OpenRoot(m.volumeDirectory(pod.UID, mount.Name))
				if err != nil {
					return fmt.Errorf("making the sub path %s: %w", mount.SubPath, err)
				}
				// A container may have put a link in the way: a root does not
				// follow it out of the volume.
				err = errors.Join(owner.makeIn(root, mount.SubPath), root.Close())
				if err != nil {
					return fmt.Errorf("making the sub path %s: %w", mount.SubPath, err)
				}
			}
		}
	}
	return nil
}
