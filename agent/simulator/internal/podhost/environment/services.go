package environment

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	"k8s.io/kubernetes/pkg/kubelet/envvars"
	"k8s.io/utils/ptr"
)

// ServiceLister lists the services of a namespace.
type ServiceLister func(namespace string) ([]*corev1.Service, error)

// Services returns the variables that describe the services of the pod's
// namespace, unless the pod does not want them, and the API server. The API
// server is described by its real address, since no cluster IP leads to it.
func Services(pod *corev1.Pod, list ServiceLister, apiHost, apiPort string) (map[string]string, error) {
	variables := make(map[string]string)
	if ptr.Deref(pod.Spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks) {
		services, err := list(pod.Namespace)
		if err != nil {
			return nil, fmt.Errorf("listing the services of namespace %s: %w", pod.Namespace, err)
		}
		var described []*corev1.Service
		for _, service := range services {
			if v1helper.IsServiceIPSet(service) && len(service.Spec.Ports) > 0 {
				described = append(described, service)
			}
		}
		for _, variable := range envvars.FromServices(described) {
			variables[variable.Name] = variable.Value
		}
	}
	variables["KUBERNETES_SERVICE_HOST"] = apiHost
	variables["KUBERNETES_SERVICE_PORT"] = apiPort
	variables["KUBERNETES_SERVICE_PORT_HTTPS"] = apiPort
	return variables, nil
}
