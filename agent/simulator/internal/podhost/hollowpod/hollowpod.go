// Package hollowpod reads a hollow node from the pod that an agent makes for it.
//
// What a podhost starts are processes of its machine, so it starts nothing but hollow nodes, in the shape that an agent gives them
// (agent/driver/hollow). A few fields may differ from pod to pod. Every other field of the API has one value, and a pod with another one,
// also in a field that a later version of the API adds, is refused by the field's name.
package hollowpod

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// ContainerName is the name of the one container.
	ContainerName = "hollow-node"
	// ConfigVolume, StateVolume and PlanVolume are the names of the volumes.
	ConfigVolume, StateVolume, PlanVolume = "config", "state", disrupt.VolumeName
	// User is the user and group of hollow nodes.
	User = 65532

	configPath, statePath, planPath = "/etc/hollow-node", "/var/lib/hollow-node", "/etc/disruptions"
	readOnly                        = 0o444
	// toldRefusals is how many fields of a pod are told.
	toldRefusals = 4
)

// Node is what a podhost needs to know of a hollow node, beside the name of its pod, which is that of its Secret.
type Node struct {
	Image string
	// Directory has the program of the image. Read leaves it out.
	Directory string
	// Grace is how long it may take to end.
	Grace time.Duration
	// The probes ask its health port by HTTP. Each may be nil.
	Startup, Readiness, Liveness *corev1.Probe
}

// Plan is the content of the file with the plan of disruptions.
func Plan(pod *corev1.Pod) string { return pod.Annotations[disrupt.Annotation] }

// Args are the arguments of a hollow node with the directories of its volumes and the address of its pod.
func Args(config, state, ip, plan string) []string {
	return []string{"--config-dir=" + config, "--state-dir=" + state, "--bind-address=" + ip, "--disruptions-file=" + plan + "/" + disrupt.FileName}
}

// Refusal names a field for which a pod does not run.
type Refusal struct{ Field, Reason string }

// Refusals are all reasons why a pod does not run.
type Refusals []Refusal

// String tells the first of them.
func (r Refusals) String() string {
	var texts []string
	for i, refusal := range r {
		if i == toldRefusals {
			texts = append(texts, fmt.Sprintf("and %d more", len(r)-i))
			break
		}
		texts = append(texts, refusal.Field+": "+refusal.Reason)
	}
	return strings.Join(texts, "; ") + ": this podhost runs hollow-node pods only, as an agent makes them"
}

// Read returns the hollow node of a pod, or why the pod is not one as an agent makes it in the namespace.
func Read(pod *corev1.Pod, namespace string) (Node, Refusals) {
	if pod.Namespace != namespace {
		return Node{}, Refusals{{"metadata.namespace", fmt.Sprintf("its pods are in namespace %s", namespace)}}
	}
	var refusals Refusals
	if pod.Labels[v1alpha1.MachineNameLabel] != pod.Name || pod.Labels[v1alpha1.ClusterNameLabel] == "" {
		refusals = append(refusals, Refusal{"metadata.labels", "a hollow-node pod has the labels of its cluster and its Machine, which an agent sets"})
	}
	got := pod.DeepCopy()
	if len(got.Spec.Containers) == 0 {
		return Node{}, append(refusals, Refusal{"spec.containers", "a hollow-node pod has one container"})
	}
	// Not all that is compared has been through an API server.
	defaults.SetObjectDefaults_Pod(got)
	want := shapeOf(got)
	refusals = append(refusals, compare(want.Spec, got.Spec)...)
	main := &want.Spec.Containers[0]
	return Node{
		Image:   main.Image,
		Grace:   time.Duration(ptr.Deref(want.Spec.TerminationGracePeriodSeconds, 0)) * time.Second,
		Startup: main.StartupProbe, Readiness: main.ReadinessProbe, Liveness: main.LivenessProbe,
	}, refusals
}

// shapeOf is the pod that an agent makes, with what may differ as it is in this one.
func shapeOf(pod *corev1.Pod) *corev1.Pod {
	spec, main := &pod.Spec, &pod.Spec.Containers[0]
	shape := &corev1.Pod{Spec: corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: spec.TerminationGracePeriodSeconds,
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](User), RunAsGroup: ptr.To[int64](User),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Volumes: volumes(pod.Name),
		Containers: []corev1.Container{{
			Name:    ContainerName,
			Image:   main.Image,
			Command: []string{"/hollow-node"},
			Args:    Args(configPath, statePath, "$(POD_IP)", planPath),
			Env: []corev1.EnvVar{{
				Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}},
			}},
			Resources: corev1.ResourceRequirements{Requests: main.Resources.Requests},
			VolumeMounts: []corev1.VolumeMount{
				{Name: ConfigVolume, MountPath: configPath, ReadOnly: true}, {Name: StateVolume, MountPath: statePath}, {Name: PlanVolume, MountPath: planPath, ReadOnly: true},
			},
			StartupProbe:    probe(main.StartupProbe),
			ReadinessProbe:  probe(main.ReadinessProbe),
			LivenessProbe:   probe(main.LivenessProbe),
			ImagePullPolicy: main.ImagePullPolicy,
			Ports:           main.Ports,
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}}
	keepScheduling(&shape.Spec, spec)
	defaults.SetObjectDefaults_Pod(shape)
	return shape
}

// keepScheduling takes over what says where the pod runs and whose it is: nothing of it reaches the process.
func keepScheduling(shape, spec *corev1.PodSpec) {
	shape.NodeName, shape.NodeSelector, shape.Affinity, shape.Tolerations = spec.NodeName, spec.NodeSelector, spec.Affinity, spec.Tolerations
	shape.SchedulerName, shape.SchedulingGates, shape.SchedulingGroup = spec.SchedulerName, spec.SchedulingGates, spec.SchedulingGroup
	shape.TopologySpreadConstraints, shape.EvictionResponders = spec.TopologySpreadConstraints, spec.EvictionResponders
	shape.Priority, shape.PriorityClassName, shape.PreemptionPolicy = spec.Priority, spec.PriorityClassName, spec.PreemptionPolicy
	shape.ServiceAccountName, shape.DeprecatedServiceAccount = spec.ServiceAccountName, spec.DeprecatedServiceAccount
	shape.ImagePullSecrets = spec.ImagePullSecrets
}

// volumes are the pod's: its own Secret, a directory that lives as long as the pod, and its plan of disruptions.
func volumes(pod string) []corev1.Volume {
	plan := &corev1.ObjectFieldSelector{FieldPath: fmt.Sprintf("metadata.annotations['%s']", disrupt.Annotation)}
	return []corev1.Volume{
		{Name: ConfigVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: pod, DefaultMode: ptr.To[int32](readOnly)}}},
		{Name: StateVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: PlanVolume, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{Path: disrupt.FileName, FieldRef: plan}}, DefaultMode: ptr.To[int32](readOnly),
		}}},
	}
}

// probe is a probe as it is, but of the node's own health port.
func probe(got *corev1.Probe) *corev1.Probe {
	if got == nil {
		return nil
	}
	want := got.DeepCopy()
	want.TerminationGracePeriodSeconds = nil
	want.ProbeHandler = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(hollownode.HealthPort), Scheme: corev1.URISchemeHTTP}}
	if got.HTTPGet != nil {
		want.HTTPGet.Path = got.HTTPGet.Path
	}
	return want
}

// Images maps image names to the directories that play their root file systems. Nothing is ever pulled.
type Images map[string]string

// Find returns the directory of an image. A name with a tag or digest matches itself first and then the name without them.
func (i Images) Find(name string) (string, error) {
	if directory, found := i[name]; found {
		return directory, nil
	}
	short := withoutTag(name)
	if directory, found := i[short]; found {
		return directory, nil
	}
	known := "no image is known"
	if len(i) > 0 {
		known = "known are " + strings.Join(slices.Sorted(maps.Keys(i)), ", ")
	}
	return "", fmt.Errorf("image %q is unknown and images are never pulled; %s: start the podhost with --image %s=DIRECTORY", name, known, short)
}

// withoutTag cuts off the digest and the tag. A colon before the last slash belongs to a registry's port.
func withoutTag(name string) string {
	name, _, _ = strings.Cut(name, "@")
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		return name[:colon]
	}
	return name
}
