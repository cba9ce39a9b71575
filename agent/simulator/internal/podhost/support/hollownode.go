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

// hollowMounts are where the volumes of a hollow-node are.
var hollowMounts = []string{"/etc/hollow-node", "/var/lib/hollow-node", "/etc/disruptions"}

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
		switch {
		case volume.EmptyDir != nil, volume.DownwardAPI != nil:
		case volume.Secret != nil && volume.Secret.SecretName == c.pod.Name:
		default:
			c.refuse(field, "a hollow-node has its own Secret, an emptyDir and its plan of disruptions only")
		}
	}
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

// checkHollowMounts refuses a volume over the program, whose Secret would be run in its place.
func (c *checker) checkHollowMounts(field string, container *corev1.Container) {
	for i := range container.VolumeMounts {
		mount := &container.VolumeMounts[i]
		if !slices.Contains(hollowMounts, mount.MountPath) || mount.SubPath != "" || mount.SubPathExpr != "" {
			c.refuse(fmt.Sprintf("%s.volumeMounts[%d]", field, i), "a hollow-node has volumes at %v only, and no subPath", hollowMounts)
		}
	}
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
