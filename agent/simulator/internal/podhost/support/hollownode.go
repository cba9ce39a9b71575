package support

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// What the agent renders (agent/driver/hollow). The test reads its golden file.
const (
	hollowNode    = "hollow-node"
	hollowCommand = "/hollow-node"
	podIP         = "status.podIP"
)

// hollowArgs are the arguments of a hollow-node. An earlier agent leaves the last one out.
var hollowArgs = []string{
	"--config-dir=/etc/hollow-node", "--state-dir=/var/lib/hollow-node", "--bind-address=$(POD_IP)", "--disruptions-file=/etc/disruptions/plan.json",
}

// hollowMounts are where the volumes of a hollow-node are, with what each is. A configuration that came from elsewhere than the Secret
// could name a program to run.
var hollowMounts = []hollowMount{
	{"/etc/hollow-node", func(v *corev1.VolumeSource) bool { return v.Secret != nil }},
	{"/var/lib/hollow-node", func(v *corev1.VolumeSource) bool { return v.EmptyDir != nil }},
	{"/etc/disruptions", func(v *corev1.VolumeSource) bool { return v.DownwardAPI != nil }},
}

type hollowMount struct {
	path string
	is   func(*corev1.VolumeSource) bool
}

// CheckHollowNode returns why a pod is not a hollow-node as an agent makes it in a namespace. What a podhost starts are processes of its
// machine: a script, or the same program with other arguments, must not become one, whoever was allowed to create the pod.
func CheckHollowNode(pod *corev1.Pod, namespace string) Refusals {
	c := &checker{pod: pod}
	if pod.Namespace != namespace {
		c.refuse("metadata.namespace", "this podhost runs hollow-node pods of namespace %s only", namespace)
		return c.refusals
	}
	if pod.Labels[v1alpha1.MachineNameLabel] != pod.Name || pod.Labels[v1alpha1.ClusterNameLabel] == "" {
		c.refuse("metadata.labels", "a hollow-node pod has the labels of its cluster and its Machine, which an agent sets")
	}
	spec := &pod.Spec
	if len(spec.InitContainers) > 0 || len(spec.EphemeralContainers) > 0 || len(spec.Containers) != 1 {
		c.refuse("spec.containers", "this podhost runs hollow-node pods only, which have one container")
		return c.refusals
	}
	c.checkHollowVolumes()
	c.checkHollowContainer("spec.containers[0]", &spec.Containers[0])
	security := ptr.Deref(spec.SecurityContext, corev1.PodSecurityContext{})
	if !ptr.Deref(security.RunAsNonRoot, false) || ptr.Deref(security.RunAsUser, 0) == 0 || ptr.Deref(security.RunAsGroup, 0) == 0 {
		c.refuse("spec.securityContext", "a hollow-node does not run as root")
	}
	return c.refusals
}

func (c *checker) checkHollowVolumes() {
	for i := range c.pod.Spec.Volumes {
		volume := &c.pod.Spec.Volumes[i]
		field := fmt.Sprintf("spec.volumes[%d]", i)
		if !c.isHollowVolume(volume) {
			c.refuse(field, "a hollow-node has its own Secret, an emptyDir and its plan of disruptions only")
		}
	}
}

func (c *checker) isHollowVolume(volume *corev1.Volume) bool {
	return volume.EmptyDir != nil || volume.DownwardAPI != nil || volume.Secret != nil && volume.Secret.SecretName == c.pod.Name
}

func (c *checker) checkHollowContainer(field string, container *corev1.Container) {
	c.checkHollowCommand(field, container)
	c.checkHollowMounts(field, container)
	c.checkHollowEnvironment(field, container)
	c.checkHollowProbes(field, container)
	if !hasNoPrivileges(ptr.Deref(container.SecurityContext, corev1.SecurityContext{})) {
		c.refuse(field+".securityContext", "a hollow-node has no privileges and no user beside the pod's")
	}
}

func (c *checker) checkHollowCommand(field string, container *corev1.Container) {
	if container.Name != hollowNode {
		c.refuse(field+".name", "this podhost runs %s containers only", hollowNode)
	}
	if !slices.Equal(container.Command, []string{hollowCommand}) {
		c.refuse(field+".command", "this podhost runs the command %s only", hollowCommand)
	}
	if len(container.Args) < len(hollowArgs)-1 || len(container.Args) > len(hollowArgs) || !slices.Equal(container.Args, hollowArgs[:len(container.Args)]) {
		c.refuse(field+".args", "this podhost runs a hollow-node with the arguments of an agent only: %v", hollowArgs)
	}
	if container.WorkingDir != "" || container.Lifecycle != nil {
		c.refuse(field+".lifecycle", "a hollow-node has no hooks and no working directory of its own")
	}
}

// checkHollowMounts refuses a volume over the program, whose Secret would be run in its place, and a volume that is missing, in whose
// place the program would read and write the machine's own files.
func (c *checker) checkHollowMounts(field string, container *corev1.Container) {
	found, before := map[string]bool{}, len(c.refusals)
	for i := range container.VolumeMounts {
		mount := &container.VolumeMounts[i]
		at := slices.IndexFunc(hollowMounts, func(known hollowMount) bool { return known.path == mount.MountPath })
		volume := c.volume(mount.Name)
		if at < 0 || mount.SubPath != "" || mount.SubPathExpr != "" || volume == nil || c.isHollowVolume(volume) && !hollowMounts[at].is(&volume.VolumeSource) {
			c.refuse(fmt.Sprintf("%s.volumeMounts[%d]", field, i), "a hollow-node has its Secret at %s, an emptyDir at %s and its plan at %s only, and no subPath",
				hollowMounts[0].path, hollowMounts[1].path, hollowMounts[2].path)
		}
		found[mount.MountPath] = true
	}
	for _, known := range hollowMounts[:mounted(container)] {
		if !found[known.path] && len(c.refusals) == before {
			c.refuse(field+".volumeMounts", "a hollow-node has a volume at %s", known.path)
		}
	}
}

// mounted is how many of hollowMounts a container needs: the hollow-node of an earlier agent has no plan.
func mounted(container *corev1.Container) int {
	if len(container.Args) < len(hollowArgs) {
		return len(hollowMounts) - 1
	}
	return len(hollowMounts)
}

func (c *checker) checkHollowEnvironment(field string, container *corev1.Container) {
	for _, variable := range container.Env {
		if variable.Name != "POD_IP" || variable.ValueFrom == nil || variable.ValueFrom.FieldRef == nil || variable.ValueFrom.FieldRef.FieldPath != podIP {
			c.refuse(field+".env", "a hollow-node has the variable POD_IP of %s only", podIP)
		}
	}
	if len(container.EnvFrom) > 0 {
		c.refuse(field+".envFrom", "a hollow-node has the variable POD_IP of %s only", podIP)
	}
}

func (c *checker) checkHollowProbes(field string, container *corev1.Container) {
	for name, probe := range map[string]*corev1.Probe{
		"startupProbe": container.StartupProbe, "readinessProbe": container.ReadinessProbe, "livenessProbe": container.LivenessProbe,
	} {
		if probe != nil && (probe.HTTPGet == nil || probe.HTTPGet.Host != "" || probe.HTTPGet.Port.IntValue() != hollownode.HealthPort || probe.Exec != nil) {
			c.refuse(field+"."+name, "a hollow-node is probed on its own port %d only", hollownode.HealthPort)
		}
	}
}

func hasNoPrivileges(security corev1.SecurityContext) bool {
	return !ptr.Deref(security.AllowPrivilegeEscalation, true) && security.RunAsUser == nil && security.RunAsGroup == nil && security.RunAsNonRoot == nil &&
		security.Capabilities != nil && slices.Contains(security.Capabilities.Drop, allCapabilities)
}
