package freeze

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler/reconcilertest"
)

func condition(kind string, status metav1.ConditionStatus, at time.Time) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: "R", LastTransitionTime: metav1.NewTime(at)}
}

func TestChangesOfAClusterThatFreeze(t *testing.T) {
	cluster := &v1alpha1.Cluster{}
	cluster.Spec.Acceptance = v1alpha1.AcceptanceAccepted
	cluster.Status.Conditions = []metav1.Condition{
		condition(v1alpha1.ClusterAcceptedCondition, metav1.ConditionTrue, time.Time{}),
		condition(v1alpha1.FrozenCondition, metav1.ConditionFalse, time.Time{}),
	}
	reconcilertest.CheckPredicate(t, ClusterChanged(), cluster, map[string]func(*v1alpha1.Cluster){
		"freeze":         func(c *v1alpha1.Cluster) { c.Status.Conditions[1].Status = metav1.ConditionTrue },
		"annotation":     func(c *v1alpha1.Cluster) { c.Annotations = map[string]string{v1alpha1.FreezeAnnotation: ""} },
		"denial":         func(c *v1alpha1.Cluster) { c.Spec.Acceptance = v1alpha1.AcceptanceDenied },
		"namespace lost": func(c *v1alpha1.Cluster) { c.Status.Conditions[0].Status = metav1.ConditionFalse },
		"deletion":       func(c *v1alpha1.Cluster) { c.DeletionTimestamp = &metav1.Time{} },
	}, map[string]func(*v1alpha1.Cluster){
		"counts": func(c *v1alpha1.Cluster) { c.Status.Machines = &v1alpha1.MachineCounts{Total: 5} },
		"another condition": func(c *v1alpha1.Cluster) {
			c.Status.Conditions = append(c.Status.Conditions, condition(v1alpha1.ReadyCondition, metav1.ConditionFalse, time.Time{}))
		},
	})
}

func TestChangesOfADeploymentThatFreeze(t *testing.T) {
	deployment := &v1alpha1.MachineDeployment{}
	reconcilertest.CheckPredicate(t, DeploymentChanged(), deployment, map[string]func(*v1alpha1.MachineDeployment){
		"annotation": func(d *v1alpha1.MachineDeployment) { d.Annotations = map[string]string{v1alpha1.FreezeAnnotation: ""} },
		"condition": func(d *v1alpha1.MachineDeployment) {
			d.Status.Conditions = []metav1.Condition{condition(v1alpha1.FrozenCondition, metav1.ConditionTrue, time.Time{})}
		},
	}, map[string]func(*v1alpha1.MachineDeployment){
		"replicas": func(d *v1alpha1.MachineDeployment) { d.Spec.Replicas = new(int32(3)) },
	})
}
