package autoscaler

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/configsource/content"
	"github.com/hollowfleet/hollowfleet/internal/kubeletconfig"
	"github.com/hollowfleet/hollowfleet/internal/strictyaml"
)

// findKubelet is what the KubeletConfiguration of a template says. A template with the content itself counts as it is. What is missing or
// cannot be read is no matter here: the Machines say so.
func (c *Controller[T, P]) findKubelet(ctx context.Context, namespace string, source *v1alpha1.ConfigSource) (Kubelet, error) {
	if source == nil {
		return Kubelet{}, nil
	}
	if source.IsResolved() {
		return readKubelet(source.Resolved.Content), nil
	}
	found, err := content.Find(ctx, c.client, namespace)
	if err != nil {
		return Kubelet{}, err
	}
	text, _ := content.Read(namespace, found, source)
	return readKubelet(text), nil
}

func readKubelet(text string) Kubelet {
	var config kubeletv1beta1.KubeletConfiguration
	decoded, err := strictyaml.ToJSON([]byte(text))
	if text == "" || err != nil || json.Unmarshal(decoded, &config) != nil {
		return Kubelet{}
	}
	return Kubelet{
		MaxPods: int64(config.MaxPods), PodsPerCore: int64(config.PodsPerCore),
		Reserved: func(capacity corev1.ResourceList) corev1.ResourceList {
			reserved, err := kubeletconfig.SumReservations(config, capacity)
			if err != nil {
				return nil
			}
			return reserved
		},
	}
}
