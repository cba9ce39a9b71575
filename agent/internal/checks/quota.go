package checks

import (
	"context"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// podCounts are the resources by which a quota bounds the number of pods.
var podCounts = []corev1.ResourceName{corev1.ResourcePods, "count/pods"}

// tightestQuota finds the quota that leaves the least room for hollow-node pods; nil if none bounds them.
func (c *Checker) tightestQuota(ctx context.Context) (*v1alpha1.PodQuota, error) {
	list := &corev1.ResourceQuotaList{}
	if err := c.Host.List(ctx, list, client.InNamespace(c.HostNamespace)); err != nil {
		return nil, fmt.Errorf("listing resource quotas: %w", err)
	}
	return leastRoom(list.Items), nil
}

// leastRoom goes by the status, as admission does. A quota with scopes may be about other pods.
func leastRoom(quotas []corev1.ResourceQuota) *v1alpha1.PodQuota {
	var least *v1alpha1.PodQuota
	for i := range quotas {
		quota := &quotas[i]
		if len(quota.Spec.Scopes) > 0 || quota.Spec.ScopeSelector != nil {
			continue
		}
		for _, resource := range podCounts {
			hard, bounds := quota.Status.Hard[resource]
			if !bounds {
				continue
			}
			used := quota.Status.Used[resource]
			remaining := int32(min(max(hard.Value()-used.Value(), 0), math.MaxInt32))
			if least == nil || remaining < least.Remaining {
				least = &v1alpha1.PodQuota{Namespace: quota.Namespace, Name: quota.Name, Remaining: remaining}
			}
		}
	}
	return least
}
