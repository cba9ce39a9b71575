package checks

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// checkDeployment reports whether all replicas of a Deployment are available. The message does not count those that are: each change
// would be written to the hub.
func (c *Checker) checkDeployment(ctx context.Context, ref v1alpha1.DeploymentReference) (metav1.Condition, error) {
	name := fmt.Sprintf("Deployment %s/%s", ref.Namespace, ref.Name)
	found, err := c.Target.AppsV1().Deployments(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDeploymentNotFound, Message: name + " does not exist"}, nil
	}
	if err != nil {
		return metav1.Condition{}, fmt.Errorf("getting %s: %w", name, err)
	}
	return availabilityOf(name, found), nil
}

// availabilityOf is the condition of a Deployment that exists.
func availabilityOf(name string, found *appsv1.Deployment) metav1.Condition {
	desired := v1alpha1.DesiredReplicas(found.Spec.Replicas)
	switch {
	case desired == 0:
		return metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonScaledToZero,
			Message: name + " is scaled to 0, so nothing can be healthy; scale it up, or remove the check from spec.healthChecks",
		}
	case found.Status.ObservedGeneration != found.Generation:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending, Message: name + " has a spec that its controller has not observed yet"}
	case int(found.Status.AvailableReplicas) < desired:
		return metav1.Condition{
			Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonMinimumReplicasUnavailable,
			Message: fmt.Sprintf("%s has fewer available replicas than the %d that it wants", name, desired),
		}
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMinimumReplicasAvailable}
}
