package podhost

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
)

// Remove removes a pod's object as a podhost does with a pod that has ended.
func Remove(ctx context.Context, client kubernetes.Interface, lister corev1listers.PodLister, pod *corev1.Pod) error {
	return (&pods{ctx: ctx, client: client, lister: lister}).remove(pod)
}
