package hollow

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	strictjson "sigs.k8s.io/json"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// AnyNamespace stands for all namespaces in Options.StaticPodNamespaces.
	AnyNamespace = "*"

	maxStaticPods     = 10
	maxStaticPodBytes = 64 << 10
	// kubeletAnnotations is what the annotations start with by which a kubelet knows pods of its own sources.
	kubeletAnnotations = "kubernetes.io/config."
)

// readStaticPods reads the list. What is in it is checked with the Machine.
func readStaticPods(target *[]runtime.RawExtension) setter {
	return func(value json.RawMessage, path string) error {
		if err := json.Unmarshal(value, target); err != nil {
			return driver.Invalid(path, "want a list of Pods, got %s", formatValue(value))
		}
		if len(*target) > maxStaticPods || len(value) > maxStaticPodBytes {
			return driver.Invalid(path, "%d Pods with %d bytes are more than %d with %d: shorten the list", len(*target), len(value), maxStaticPods, maxStaticPodBytes)
		}
		return nil
	}
}

// staticPodsOf are the static pods of a Machine's Node, decoded and as manifests.
func staticPodsOf(config v1alpha1.HollowNodeConfig, machine, path string) ([]corev1.Pod, []json.RawMessage, error) {
	var pods []corev1.Pod
	var manifests []json.RawMessage
	for i, raw := range config.StaticPods {
		field := fmt.Sprintf("%s.staticPods[%d]", path, i)
		pod, err := decodeStaticPod(raw.Raw, machine, field)
		if err != nil {
			return nil, nil, err
		}
		if slices.ContainsFunc(pods, func(other corev1.Pod) bool { return other.Name == pod.Name && other.Namespace == pod.Namespace }) {
			return nil, nil, driver.Invalid(field+".metadata.name", "%s is there twice in namespace %s: give each a name of its own", pod.Name, pod.Namespace)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw.Raw); err != nil {
			return nil, nil, driver.Invalid(field, "not a Pod: %v", err)
		}
		pods, manifests = append(pods, pod), append(manifests, compact.Bytes())
	}
	return pods, manifests, nil
}

// decodeStaticPod reads a manifest strictly. What a kubelet refuses beside what is checked here lets the hollow-node say so.
func decodeStaticPod(raw []byte, machine, path string) (corev1.Pod, error) {
	var pod corev1.Pod
	unknown, err := strictjson.UnmarshalStrict(raw, &pod)
	if err != nil {
		return pod, driver.Invalid(path, "not a Pod: %v", err)
	}
	if len(unknown) > 0 {
		return pod, driver.Invalid(path, "not a field of a Pod, or written twice: %v: correct its name, or remove it", unknown[0])
	}
	if pod.APIVersion != "v1" || pod.Kind != "Pod" {
		return pod, driver.Invalid(path, "want apiVersion v1 and kind Pod, got %q and %q", pod.APIVersion, pod.Kind)
	}
	if problems := validation.IsDNS1123Subdomain(pod.Name + "-" + strings.ToLower(machine)); pod.Name == "" || len(problems) > 0 {
		return pod, driver.Invalid(path+".metadata.name", "want a name that makes one of a pod with -%s at its end, got %q", machine, pod.Name)
	}
	pod.Namespace = cmp.Or(pod.Namespace, metav1.NamespaceDefault)
	for key := range pod.Annotations {
		if strings.HasPrefix(key, kubeletAnnotations) {
			return pod, driver.Invalid(path+".metadata.annotations", "%s is the kubelet's own: remove it", key)
		}
	}
	if len(pod.Spec.Containers) == 0 {
		return pod, driver.Invalid(path+".spec.containers", "want one container at least")
	}
	if field := findReference(pod.Spec); field != "" {
		return pod, driver.Invalid(path+".spec."+field, "a static pod cannot refer to other objects: remove it")
	}
	return pod, nil
}

// findReference returns the first field that refers to another object, which neither a kubelet nor an API server lets a static pod do.
func findReference(spec corev1.PodSpec) string {
	switch {
	case spec.ServiceAccountName != "":
		return "serviceAccountName"
	case spec.DeprecatedServiceAccount != "":
		return "serviceAccount"
	case len(spec.ImagePullSecrets) > 0:
		return "imagePullSecrets"
	case len(spec.ResourceClaims) > 0:
		return "resourceClaims"
	}
	for i := range spec.Volumes {
		if v := spec.Volumes[i].VolumeSource; v.EmptyDir == nil && v.HostPath == nil && v.DownwardAPI == nil && v.NFS == nil {
			return fmt.Sprintf("volumes[%d]", i)
		}
	}
	return cmp.Or(findEnvironment("containers", spec.Containers), findEnvironment("initContainers", spec.InitContainers))
}

// findEnvironment is findReference for the variables of containers.
func findEnvironment(list string, containers []corev1.Container) string {
	for i := range containers {
		if len(containers[i].EnvFrom) > 0 {
			return fmt.Sprintf("%s[%d].envFrom", list, i)
		}
		for j, variable := range containers[i].Env {
			if from := variable.ValueFrom; from != nil && (from.ConfigMapKeyRef != nil || from.SecretKeyRef != nil) {
				return fmt.Sprintf("%s[%d].env[%d].valueFrom", list, i, j)
			}
		}
	}
	return ""
}

// checkNamespaces refuses static pods where the cluster's own administrator has not allowed them: a Service there could select them.
func checkNamespaces(pods []corev1.Pod, allowed []string, path string) error {
	for i := range pods {
		namespace := pods[i].Namespace
		if slices.Contains(allowed, namespace) || slices.Contains(allowed, AnyNamespace) {
			continue
		}
		return driver.Invalid(fmt.Sprintf("%s.staticPods[%d].metadata.namespace", path, i), "the cluster's agent takes no static pods in namespace %s: "+
			"add it to --static-pod-namespaces of the agent (hollowNode.staticPodNamespaces of its chart), or remove the pod", namespace)
	}
	return nil
}
