// Package downward evaluates downward API references: fields of a pod that its
// own containers may read.
package downward

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/api/v1/resource"
	podshelper "k8s.io/kubernetes/pkg/apis/core/pods"
	"k8s.io/kubernetes/pkg/fieldpath"
)

// Field returns the value of a field of the pod. The pod's status must hold
// its addresses.
func Field(pod *corev1.Pod, selector *corev1.ObjectFieldSelector) (string, error) {
	path, _, err := podshelper.ConvertDownwardAPIFieldLabel(selector.APIVersion, selector.FieldPath, "")
	if err != nil {
		return "", fmt.Errorf("reading field %s: %w", selector.FieldPath, err)
	}
	switch path {
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return pod.Status.HostIP, nil
	case "status.hostIPs":
		ips := make([]string, 0, len(pod.Status.HostIPs))
		for _, ip := range pod.Status.HostIPs {
			ips = append(ips, ip.IP)
		}
		return strings.Join(ips, ","), nil
	case "status.podIP":
		return pod.Status.PodIP, nil
	case "status.podIPs":
		ips := make([]string, 0, len(pod.Status.PodIPs))
		for _, ip := range pod.Status.PodIPs {
			ips = append(ips, ip.IP)
		}
		return strings.Join(ips, ","), nil
	}
	value, err := fieldpath.ExtractFieldPathAsString(pod, path)
	if err != nil {
		return "", fmt.Errorf("reading field %s: %w", path, err)
	}
	return value, nil
}

// Resource returns a request or limit of a container of the pod. Without a
// limit it is what the node has to offer.
func Resource(pod *corev1.Pod, container string, selector *corev1.ResourceFieldSelector, allocatable corev1.ResourceList) (string, error) {
	if selector.ContainerName != "" {
		container = selector.ContainerName
	}
	value, err := resource.ExtractResourceValueByContainerNameAndNodeAllocatable(selector, pod, container, allocatable)
	if err != nil {
		return "", fmt.Errorf("reading resource %s of container %s: %w", selector.Resource, container, err)
	}
	return value, nil
}
