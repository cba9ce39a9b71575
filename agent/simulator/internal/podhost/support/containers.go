package support

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/pathmap"
)

// allCapabilities is the name that stands for every capability.
const allCapabilities = corev1.Capability("ALL")

// dropsAll is the rule for dropped capabilities: all or none.
func dropsAll(c *checker, field string, value reflect.Value) {
	dropped, _ := value.Interface().([]corev1.Capability)
	if !slices.Contains(dropped, allCapabilities) {
		c.refuse(field, "only ALL can be dropped")
	}
}

// checkContainers applies the rules that need more than one field.
func (c *checker) checkContainers(list string, containers []corev1.Container) {
	for i := range containers {
		field := fmt.Sprintf("%s[%d]", list, i)
		container := &containers[i]
		if len(container.Command) == 0 {
			c.refuse(field+".command", "a command is required: image directories have no entrypoint")
		}
		if _, err := Identity(c.pod, container, c.host); err != nil {
			c.refuse(field+".securityContext", "%s", err)
		}
		for j := range container.VolumeMounts {
			c.checkMount(fmt.Sprintf("%s.volumeMounts[%d]", field, j), container, &container.VolumeMounts[j])
		}
	}
}

func (c *checker) checkMount(field string, container *corev1.Container, mount *corev1.VolumeMount) {
	volume := c.volume(mount.Name)
	if volume == nil {
		c.refuse(field+".name", "the pod has no volume %s", mount.Name)
		return
	}
	if mount.ReadOnly && volume.EmptyDir != nil {
		c.refuse(field+".readOnly", "an emptyDir cannot be made read-only: %s", noMounts)
	}
	if path.Clean(mount.MountPath) == "/" {
		c.refuse(field+".mountPath", "a volume cannot replace the root directory")
		return
	}
	if mentions(container, mount.MountPath) {
		return
	}
	remedy := ""
	if strings.HasPrefix(mount.Name, "kube-api-access-") {
		remedy = "; set automountServiceAccountToken: false"
	}
	c.refuse(field+".mountPath", "%s, so a volume is found only where the command, arguments, literal environment values or working directory mention its mount path, and none mentions %s%s",
		noMounts, mount.MountPath, remedy)
}

func (c *checker) volume(name string) *corev1.Volume {
	for i := range c.pod.Spec.Volumes {
		if c.pod.Spec.Volumes[i].Name == name {
			return &c.pod.Spec.Volumes[i]
		}
	}
	return nil
}

// mentions reports whether the mount path will be replaced somewhere.
func mentions(container *corev1.Container, mountPath string) bool {
	texts := slices.Concat(container.Command, container.Args, []string{container.WorkingDir})
	for _, variable := range container.Env {
		texts = append(texts, variable.Value)
	}
	return slices.ContainsFunc(texts, func(text string) bool { return pathmap.Occurs(text, mountPath) })
}
