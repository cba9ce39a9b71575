package podhost

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/kubelet/configmap"
	"k8s.io/kubernetes/pkg/kubelet/secret"
)

// objects reads the Secrets and ConfigMaps of pods. A node may not list those
// of a namespace, only get and watch the ones that its pods refer to, by name.
// The kubelet's managers keep one such watch for each.
type objects struct {
	secrets    secret.Manager
	configMaps configmap.Manager
}

// newObjects keeps watches that no client reads for at least five times the period.
func newObjects(client kubernetes.Interface, period time.Duration) *objects {
	return &objects{
		secrets:    secret.NewWatchingSecretManager(client, period),
		configMaps: configmap.NewWatchingConfigMapManager(client, period),
	}
}

// GetSecret returns a Secret of a registered pod.
func (o *objects) GetSecret(namespace, name string) (*corev1.Secret, error) {
	return o.secrets.GetSecret(namespace, name)
}

// GetConfigMap returns a ConfigMap of a registered pod.
func (o *objects) GetConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	return o.configMaps.GetConfigMap(namespace, name)
}

func (o *objects) register(pod *corev1.Pod) {
	o.secrets.RegisterPod(pod)
	o.configMaps.RegisterPod(pod)
}

func (o *objects) unregister(pod *corev1.Pod) {
	o.secrets.UnregisterPod(pod)
	o.configMaps.UnregisterPod(pod)
}
