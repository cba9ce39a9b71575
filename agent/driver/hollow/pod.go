package hollow

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	configDirectory = "/etc/hollow-node"
	stateDirectory  = "/var/lib/hollow-node"
	// unprivileged is the user and group that a hollow-node runs as.
	unprivileged int64 = 65532
	// gracePeriodSeconds is enough: a hollow-node has nothing to finish.
	gracePeriodSeconds int64 = 5
	// startupPeriodSeconds is how soon a node that has joined is seen to be ready.
	startupPeriodSeconds = 2
)

// renderPod writes the pod of a machine. It is the same on every host.
func renderPod(cluster, namespace, machine, image string, d desired) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      machine,
			Labels:    objectLabels(cluster, machine),
			Annotations: map[string]string{
				configurationHashAnnotation: d.configurationHash,
				registrationHashAnnotation:  d.registrationHash,
			},
		},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{renderContainer(image, d)},
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: ptr.To(gracePeriodSeconds),
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   ptr.To(true),
				RunAsUser:      ptr.To(unprivileged),
				RunAsGroup:     ptr.To(unprivileged),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			// A hollow node runs no containers: a hollow-node pod there would be a node made of nothing.
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{
						MatchExpressions: []corev1.NodeSelectorRequirement{
							{Key: v1alpha1.HollowNodeLabel, Operator: corev1.NodeSelectorOpDoesNotExist},
						},
					}},
				},
			}},
			Tolerations: []corev1.Toleration{{Key: v1alpha1.HollowHostTaint, Operator: corev1.TolerationOpExists}},
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
					// The files must be readable for the hollow-node's user. They are in its own pod only, and not
					// every host gives files to a group of the pod.
					SecretName: machine, DefaultMode: ptr.To[int32](0o444),
				}}},
				{Name: "state", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
}

func renderContainer(image string, d desired) corev1.Container {
	return corev1.Container{
		Name:            containerName,
		Image:           image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{"/hollow-node"},
		Args: []string{
			"--config-dir=" + configDirectory,
			"--state-dir=" + stateDirectory,
			"--bind-address=$(POD_IP)",
		},
		Env: []corev1.EnvVar{{
			Name:      "POD_IP",
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}},
		}},
		Ports:     []corev1.ContainerPort{{Name: "health", ContainerPort: hollownode.HealthPort, Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{Requests: d.podResources},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: configDirectory, ReadOnly: true},
			{Name: "state", MountPath: stateDirectory},
		},
		// Many hollow nodes share few cores, and a restart is a reboot of the Node: a process that gets too little time to
		// answer must not be restarted. One that ended is, without any probe. The readiness of a node that has joined hardly
		// changes, so only the start is probed often. A start takes as long as its delay and the approval of its certificate.
		StartupProbe:   probe("/readyz", startupPeriodSeconds, 5, int32((maxStartupDelay+time.Hour).Seconds())/startupPeriodSeconds),
		ReadinessProbe: probe("/readyz", 30, 30, 3),
		LivenessProbe:  probe("/healthz", 30, 30, 10),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

func probe(path string, periodSeconds, timeoutSeconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(hollownode.HealthPort), Scheme: corev1.URISchemeHTTP},
		},
		PeriodSeconds:    periodSeconds,
		TimeoutSeconds:   timeoutSeconds,
		SuccessThreshold: 1,
		FailureThreshold: failures,
	}
}
