package hollow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const (
	configDirectory = "/etc/hollow-node"
	stateDirectory  = "/var/lib/hollow-node"
	// planDirectory has the plan of disruptions, as the pod's annotation says it.
	planDirectory = "/etc/disruptions"
	// unprivileged is the user and group that a hollow-node runs as.
	unprivileged int64 = 65532
	// gracePeriodSeconds is enough: a hollow-node has nothing to finish.
	gracePeriodSeconds int64 = 5
	// startupPeriodSeconds is how soon a node that has joined is seen to be ready.
	startupPeriodSeconds = 2
)

// renderPod writes the pod of a machine. It is the same on every host.
func renderPod(cluster, namespace, machine, image string, d desired) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      machine,
			Labels:    objectLabels(cluster, machine),
			Annotations: map[string]string{
				configurationHashAnnotation: d.configurationHash,
				registrationHashAnnotation:  d.registrationHash,
				// Not in a hash: pods that were made without it are not replaced.
				hollownode.ProfileAnnotation: hollownode.ProfileName(d.configuration.Fidelity),
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
				planVolume(),
			},
		},
	}
	if d.kubelet != nil {
		pod.Annotations[kubeletConfigurationAnnotation] = d.kubelet.hash
	}
	return pod
}

// planVolume is the file with the plan of disruptions. It is no part of any hash: a pod that was made without it is not
// replaced for it, and cannot be disrupted.
func planVolume() corev1.Volume {
	annotation := fmt.Sprintf("metadata.annotations['%s']", disrupt.Annotation)
	return corev1.Volume{Name: disrupt.VolumeName, VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{
				Path: disrupt.FileName, FieldRef: &corev1.ObjectFieldSelector{FieldPath: annotation},
			}},
			DefaultMode: ptr.To[int32](0o444),
		},
	}}
}

// Disruptable reports whether a hollow-node's pod follows the plan in its annotation disrupt.Annotation. A pod that an agent
// made which knew nothing of disruptions does not, until it is replaced for another reason.
func Disruptable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Name == disrupt.VolumeName && v.DownwardAPI != nil
	})
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
			"--disruptions-file=" + planDirectory + "/" + disrupt.FileName,
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
			{Name: disrupt.VolumeName, MountPath: planDirectory, ReadOnly: true},
		},
		// Many hollow nodes share few cores, and a restart is a reboot of the Node: a process that gets too little time to
		// answer must not be restarted. One that ended is, without any probe. The readiness of a node that has joined hardly
		// changes, so only the start is probed often. A start takes as long as its delay and the approval of its certificate.
		StartupProbe:   newProbe("/readyz", startupPeriodSeconds, 5, int32((maxStartupDelay+time.Hour).Seconds())/startupPeriodSeconds),
		ReadinessProbe: newProbe("/readyz", 30, 30, 3),
		LivenessProbe:  newProbe("/healthz", 30, 30, 10),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

func newProbe(path string, periodSeconds, timeoutSeconds, failures int32) *corev1.Probe {
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

// harmless are the reasons of a container that waits as every container does at first. With any other a person
// should know: the image cannot be had, the process crashes, the host cannot run such a pod.
var harmless = []string{"", "ContainerCreating", "PodInitializing"}

// stateOf reads a pod's status. It is pure.
func stateOf(pod *corev1.Pod) (state driver.State, message string) {
	switch {
	case pod.DeletionTimestamp != nil:
		return driver.Deleting, joinWithColons("the pod is being deleted", heldBy(pod.Finalizers))
	case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return driver.Failed, joinWithColons("the pod has ended", pod.Status.Reason, pod.Status.Message)
	}
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil && !slices.Contains(harmless, waiting.Reason) {
			return driver.Failing, joinWithColons(fmt.Sprintf("the hollow-node is not running (%s)", plural.Count(container.RestartCount, "restart")), waiting.Reason, waiting.Message)
		}
		if ended := container.State.Terminated; ended != nil {
			return driver.Failing, joinWithColons(fmt.Sprintf("the hollow-node ended with exit code %d and will be restarted", ended.ExitCode), ended.Reason, ended.Message)
		}
	}
	if pod.Status.Phase != corev1.PodRunning {
		return driver.Pending, pendingMessage(pod)
	}
	if !hasCondition(pod, corev1.PodReady, corev1.ConditionTrue) {
		return driver.Pending, "the hollow-node is running and not ready yet"
	}
	return driver.Running, ""
}

// heldBy names the finalizers that keep an object which is being deleted; empty without any.
func heldBy(finalizers []string) string {
	if len(finalizers) == 0 {
		return ""
	}
	return "it is kept by the finalizers of others: " + strings.Join(finalizers, ", ")
}

func pendingMessage(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return joinWithColons("the pod is not scheduled", condition.Reason, condition.Message)
		}
	}
	return "the pod is being started"
}

func hasCondition(pod *corev1.Pod, conditionType corev1.PodConditionType, status corev1.ConditionStatus) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == conditionType && c.Status == status
	})
}

// joinWithColons joins what there is of its parts with colons.
func joinWithColons(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}

const (
	// BootstrapServiceAccount is the ServiceAccount of the target cluster whose tokens hollow-nodes join with.
	BootstrapServiceAccount = "hollow-node-bootstrap"

	// tokenIDsAnnotation, on a Machine's Secret, lists the IDs of the bootstrap tokens that may ask for the
	// identity of its Node: the current one and the one before.
	tokenIDsAnnotation = "hollowfleet.io/bootstrap-token-ids"
	// tokenExpiryAnnotation, on a Machine's Secret, is when its current bootstrap token expires (RFC 3339).
	tokenExpiryAnnotation = "hollowfleet.io/bootstrap-token-expiry"
	// configurationHashAnnotation and registrationHashAnnotation, on a pod, tell what it was made from.
	configurationHashAnnotation = "hollowfleet.io/configuration-hash"
	registrationHashAnnotation  = "hollowfleet.io/registration-hash"
	// kubeletConfigurationAnnotation, on a pod, is the hash of the KubeletConfiguration that it was made with.
	kubeletConfigurationAnnotation = "hollowfleet.io/kubelet-configuration"

	containerName = "hollow-node"
	fieldManager  = "hollowfleet-agent"
)

// objectLabels are on every pod and Secret that this driver makes.
func objectLabels(cluster, machine string) map[string]string {
	return map[string]string{
		v1alpha1.ClusterNameLabel: cluster,
		v1alpha1.MachineNameLabel: machine,
	}
}

// ownLabels are the labels below kubernetes.io and k8s.io that a kubelet may set on its own Node.
var ownLabels = []string{
	corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, corev1.LabelOSStable, corev1.LabelArchStable,
	"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

// kubeletMaySet reports whether the NodeRestriction admission plugin lets a kubelet put a label on its Node.
func kubeletMaySet(label string) bool {
	domain, _, qualified := strings.Cut(label, "/")
	if !qualified {
		return true
	}
	if isWithinDomain(domain, corev1.LabelNamespaceNodeRestriction) {
		return false
	}
	if !isWithinDomain(domain, "kubernetes.io") && !isWithinDomain(domain, "k8s.io") {
		return true
	}
	return slices.Contains(ownLabels, label) ||
		isWithinDomain(domain, corev1.LabelNamespaceSuffixKubelet) || isWithinDomain(domain, corev1.LabelNamespaceSuffixNode)
}

func isWithinDomain(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// watchPods asks the agent to look at a Machine whenever its pod changes in a way that stateOf sees.
func (d *Driver) watchPods(ctx context.Context) error {
	if d.environment.Host.Informers == nil {
		return nil
	}
	informer, err := d.environment.Host.Informers.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: d.podChanged,
		UpdateFunc: func(before, after any) {
			if podDiffers(before, after) {
				d.podChanged(after)
			}
		},
		DeleteFunc: d.podChanged,
	})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	return nil
}

func (d *Driver) podChanged(object any) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	if pod, ok := object.(*corev1.Pod); ok && pod.Labels[v1alpha1.MachineNameLabel] != "" {
		d.environment.Changed(pod.Labels[v1alpha1.MachineNameLabel])
	}
}

func podDiffers(before, after any) bool {
	a, aOK := before.(*corev1.Pod)
	b, bOK := after.(*corev1.Pod)
	if !aOK || !bOK || a.UID != b.UID || a.Annotations[configurationHashAnnotation] != b.Annotations[configurationHashAnnotation] {
		return true
	}
	stateA, messageA := stateOf(a)
	stateB, messageB := stateOf(b)
	return stateA != stateB || messageA != messageB
}
